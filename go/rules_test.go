package rampmeter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	ten  = `name = "ten", capacity = 10, period = "1s"`
	slow = `name = "slow", capacity = 1, period = "1h", margin = 0`
)

// statuses makes so many calls at once, and returns their statuses when all are made.
func statuses(t tester, hub *Resource, url string, calls int) func() []int {
	caller := http.Client{Transport: hub.WithPermits(nil)}
	found := make(chan int, calls)
	for count := 0; count < calls; count++ {
		go func() {
			response, err := caller.Get(url)
			if err != nil {
				t.Error(err)
				found <- 0
				return
			}
			response.Body.Close()
			found <- response.StatusCode
		}()
	}
	return func() (all []int) {
		for count := 0; count < calls; count++ {
			all = append(all, <-found)
		}
		return all
	}
}

func allAreOK(t tester, up *upstream, statuses []int) {
	t.Helper()
	for _, status := range statuses {
		if status != http.StatusOK {
			t.Fatal(statuses)
		}
	}
	if limited := up.stats().RateLimited; limited > 0 {
		t.Fatalf("%v calls were over the limit", limited)
	}
}

func TestASchedulerIsKilledUnderWaitingCalls(t *testing.T) {
	up, s := startUpstream(t, "--limit", "requests=12/1s"), scheduler(t, limits(ten), natsServer(t)) // A loaded machine starts calls late.
	_, hub := s.client()
	made := statuses(t, hub, up.url+"/process", 40)
	for kills := 0; kills < 2; kills++ {
		time.Sleep(700 * time.Millisecond)
		s.kill()
		time.Sleep(300 * time.Millisecond)
		s.restart()
	}
	allAreOK(t, up, made())
}

func TestNATSIsKilledUnderWaitingCalls(t *testing.T) {
	up, nats := startUpstream(t, "--limit", "requests=12/1s"), natsServer(t)
	_, hub := scheduler(t, limits(ten), nats).client()
	made := statuses(t, hub, up.url+"/process", 25)
	time.Sleep(300 * time.Millisecond)
	nats.kill()
	nats.restart()
	allAreOK(t, up, made())
}

func acquired(t tester, hub *Resource, options ...Option) *Permit {
	t.Helper()
	permit, err := hub.Acquire(context.Background(), nil, options...)
	must(t, err)
	return permit
}

func TestAnotherSchedulerOfTheListTakesOver(t *testing.T) {
	nats := natsServer(t)
	one, two := scheduler(t, limits(ten), nats), scheduler(t, limits(ten), nats)
	client := New(one.url+", "+two.url, WithLog(func(string) {}))
	hub := client.Resource("api")
	acquired(t, hub).Settle(Outcome{})
	one.kill()
	acquired(t, hub).Settle(Outcome{})
	must(t, client.Close())
}

func TestASchedulerThatHangsIsLeft(t *testing.T) {
	nats := natsServer(t)
	one, two := scheduler(t, limits(ten), nats), scheduler(t, limits(ten), nats)
	client := New(one.url+","+two.url, WithLog(func(string) {}), UnreachableFail(6*time.Second))
	one.signal(syscall.SIGSTOP)
	defer one.signal(syscall.SIGCONT)
	acquired(t, client.Resource("api")).Settle(Outcome{})
}

func TestBadInputIsAnErrorThatSaysWhatToDo(t *testing.T) {
	folder := folder(t)
	const token = "a token of enough bytes"
	file := filepath.Join(folder, "token")
	must(t, os.WriteFile(file, []byte(token), 0o600))
	s := scheduler(t, fmt.Sprintf("[http]\ntoken_file = %q\n", file)+limits(ten))
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>a page</html>") }))
	t.Cleanup(other.Close)
	nats := strings.Replace(s.nats, "nats://", "http://", 1)
	for _, row := range []struct {
		url, token, resource string
		cost                 Cost
		options              []Option
		code, message        string
	}{
		{s.url, token, "apo", nil, nil, "unknown_resource", "no scheduler answers for resource `apo`"},
		{s.url, token, "two words", nil, nil, "invalid_request", `not "two words"`},
		{s.url, token, "api", Cost{"tiles": 1}, nil, "unknown_unit", "tiles"},
		{s.url, token, "api", nil, []Option{Class("urgentest")}, "unknown_class", "there are `default`"},
		{s.url, token, "api", Requests(11), nil, "never_fits", "ten"},
		{s.url, token, "api", Requests(-1), nil, "invalid_request", "a cost is 0 to 1e9, not -1 requests"},
		{s.url, token, "api", nil, []Option{Label("route", strings.Repeat("x", 300))}, "invalid_request", "label"},
		{s.url, "another", "api", nil, nil, "wrong_token", "give WithToken one that the scheduler knows"},
		{other.URL, token, "api", nil, nil, "not_rampmeter", "give New the address of a scheduler"},
		{s.url + "/v1", token, "api", nil, nil, "not_rampmeter", "give New the address of a scheduler"},
		{nats, token, "api", nil, nil, "not_rampmeter", "malformed HTTP"},
		{"nowhere", token, "api", nil, nil, "invalid_request", "http://HOST:PORT"},
		{"nats://127.0.0.1:1", token, "api", nil, nil, "invalid_request", "http://HOST:PORT"},
		{"http://me:secret@127.0.0.1:1", token, "api", nil, nil, "invalid_request", "a password goes into WithToken"},
	} {
		hub := New(row.url, WithToken(row.token), WithLog(func(string) {})).Resource(row.resource)
		_, err := hub.Acquire(context.Background(), row.cost, row.options...)
		var refused *Refused
		if !errors.As(err, &refused) || refused.Code != row.code || !strings.Contains(err.Error(), row.message) {
			t.Errorf("%s, not %s with %q", err, row.code, row.message)
		}
		if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), token) {
			t.Errorf("it shows a secret: %v", err)
		}
	}
	t.Setenv("RAMPMETER_URL", s.url)
	t.Setenv("RAMPMETER_TOKEN", token+"\n")
	acquired(t, New("").Resource("api")).GiveBack()
	t.Setenv("RAMPMETER_URL", "")
	if _, err := New("").Resource("api").TryAcquire(context.Background(), nil); !strings.Contains(err.Error(), "RAMPMETER_URL") {
		t.Error(err)
	}
}

func TestAWaitThatIsTooLongIsRefusedAtOnce(t *testing.T) {
	c, hub := scheduler(t, limits(slow)).client()
	_ = c
	acquired(t, hub).Settle(Outcome{})
	soon, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, ask := range []func() (*Permit, error){
		func() (*Permit, error) { return hub.Acquire(context.Background(), nil, MaxWait(20*time.Second)) },
		func() (*Permit, error) {
			return hub.Acquire(context.Background(), nil, Deadline(time.Now().Add(20*time.Second)))
		},
		func() (*Permit, error) { return hub.Acquire(soon, nil) },
		func() (*Permit, error) { return hub.TryAcquire(context.Background(), nil) },
		func() (*Permit, error) { return hub.Acquire(context.Background(), nil, MaxWait(0)) },
		func() (*Permit, error) { return hub.Reserve(context.Background(), nil, MaxWait(20*time.Second)) },
	} {
		begun := time.Now()
		_, err := ask()
		var late *NotInTime
		if !errors.As(err, &late) || late.RetryAfter < time.Minute || late.LimitedBy != "slow" {
			t.Errorf("%+v", err)
		}
		if !errors.As(err, new(*Refused)) || !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 19*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	}
}

func TestACallerThatGivesUpLeavesTheQueueAtNoCharge(t *testing.T) {
	up, s := startUpstream(t), scheduler(t, limits(slow))
	c, hub := s.client()
	first := acquired(t, hub)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(300*time.Millisecond, cancel)
	asking, err := http.NewRequestWithContext(ctx, http.MethodGet, up.url+"/process", nil)
	must(t, err)
	if _, err := (&http.Client{Transport: hub.WithPermits(nil)}).Do(asking); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := hub.Acquire(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	first.GiveBack()
	must(t, c.Settled(context.Background()))
	if level, sent := s.level("slow"), up.stats().Sent; level < 1 || sent != 0 {
		t.Fatalf("%v is left, and %v calls were made", level, sent)
	}
}

func TestAPermitWhoseStartIsAwaitedGoesBackWithTheContext(t *testing.T) {
	s := scheduler(t, limits(`name = "two", capacity = 2, period = "1h", margin = 0`))
	c, hub := s.client()
	for count := 0; count < 2; count++ {
		acquired(t, hub).Settle(Outcome{})
	}
	reserved, err := hub.Reserve(context.Background(), nil)
	must(t, err)
	if delay := reserved.Delay(); delay < 10*time.Minute || delay > time.Hour {
		t.Fatal(delay)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := reserved.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	s.settled(c, 2)
}

func TestAReservationStartsInTimeAndAnewIfTheProcessSlept(t *testing.T) {
	s := scheduler(t, limits(`name = "two", capacity = 2, period = "2s", margin = 0`))
	c, hub := s.client()
	acquired(t, hub).Settle(Outcome{})
	acquired(t, hub).Settle(Outcome{})
	begun := time.Now()
	reserved, err := hub.Reserve(context.Background(), nil)
	must(t, err)
	delay, first := reserved.Delay(), reserved.ID()
	must(t, reserved.Ready(context.Background()))
	if waited := time.Since(begun); waited < delay-time.Millisecond || reserved.ID() != first {
		t.Fatal(waited, delay)
	}
	reserved.granted.answer.Valid = 0 // As if it had slept.
	must(t, reserved.Ready(context.Background()))
	if reserved.ID() == first || reserved.Waited() < delay {
		t.Fatal("there is no other permit at the same age")
	}
	reserved.Settle(Outcome{Status: http.StatusOK})
	s.settled(c, 3)
}

func TestACallInFlightKeepsItsPlaceAsLongAsItLasts(t *testing.T) {
	held := `name = "in-flight", algorithm = "concurrency", capacity = 1, time_to_live = "3s"`
	s := scheduler(t, limits(held))
	_, hub := s.client()
	long := acquired(t, hub)
	if _, err := hub.Acquire(context.Background(), nil, MaxWait(7*time.Second)); !errors.As(err, new(*NotInTime)) {
		t.Fatal(err)
	}
	long.Settle(Outcome{})
	acquired(t, hub, MaxWait(longest)).Settle(Outcome{})
}

func TestWhileNoSchedulerAnswersRequestsWaitFailOrGoOnAtTheSafeRate(t *testing.T) {
	url, quiet := "http://"+freeAddress(t), WithLog(func(string) {})
	ctx := context.Background()
	_, err := New(url, quiet, UnreachableFail(200*time.Millisecond)).Resource("api").Acquire(ctx, nil)
	var unreachable *Unreachable
	if !errors.As(err, &unreachable) || unreachable.RetryAfter == 0 || !strings.Contains(err.Error(), url) ||
		!strings.Contains(err.Error(), "connection refused") {
		t.Fatal(err)
	}
	_, err = New(url, quiet).Resource("api").Acquire(ctx, nil, MaxWait(3*time.Second))
	if !errors.As(err, new(*NotInTime)) || !strings.Contains(err.Error(), "no scheduler answers") {
		t.Fatal(err)
	}
	hub := New(url, quiet, UnreachableSafeRate(10, time.Second, 200*time.Millisecond)).Resource("api")
	begun := time.Now()
	var group sync.WaitGroup
	for count := 0; count < 6; count++ {
		group.Add(1)
		go func() {
			defer group.Done()
			if permit, err := hub.Acquire(ctx, nil); err != nil || permit.ID() != "" {
				t.Error(err)
			}
		}()
	}
	group.Wait()
	if took := time.Since(begun); took < 690*time.Millisecond || took > longest {
		t.Fatal(took)
	}
}

func TestCallsThatWaitForTheirSafeTimeAskTheSchedulerThatIsBack(t *testing.T) {
	s := scheduler(t, limits(ten))
	_, hub := s.client(UnreachableSafeRate(1, time.Hour, 100*time.Millisecond))
	s.kill()
	found := make(chan *Permit)
	go func() {
		permit, err := hub.Acquire(context.Background(), nil)
		if err != nil {
			t.Error(err)
		}
		found <- permit
	}()
	time.Sleep(500 * time.Millisecond)
	s.restart()
	if permit := <-found; permit.ID() == "" {
		t.Fatal("no scheduler was asked")
	}
}

func TestPeopleAreToldOfASilenceAndOfItsEnd(t *testing.T) {
	s := scheduler(t, limits(ten))
	told := make(chan string, 10)
	_, hub := s.client(WithLog(func(message string) { told <- message }))
	s.kill()
	time.AfterFunc(2500*time.Millisecond, s.restart)
	acquired(t, hub).Settle(Outcome{})
	first, second := <-told, <-told
	if !strings.HasPrefix(first, "rampmeter: api: no scheduler has answered for ") || !strings.Contains(first, "connection refused") {
		t.Error(first)
	}
	if second != "rampmeter: api: a scheduler answers again" || len(told) > 0 {
		t.Error(second)
	}
}

func TestSettlesThatAreTooLongForOneMessageTravelInSeveral(t *testing.T) {
	s := scheduler(t, limits(`name = "many", capacity = 1000, period = "1s"`))
	var lost []string
	c, hub := s.client(WithLog(func(message string) { lost = append(lost, message) }))
	var permits []*Permit
	for count := 0; count < 200; count++ {
		permits = append(permits, acquired(t, hub))
	}
	header := http.Header{"Ratelimit-Policy": {strings.Repeat("é", 500)}} // Two bytes each.
	for _, permit := range permits {
		permit.Settle(Outcome{Status: http.StatusOK, Header: header})
	}
	s.settled(c, 200)
	if settled := s.counter("settled"); settled != 200 || len(lost) > 0 {
		t.Fatal(settled, lost)
	}
}

func TestSettlesWaitForTheSchedulerThatIsBack(t *testing.T) {
	nats := natsServer(t)
	s := scheduler(t, limits(ten), nats)
	c, hub := s.client()
	permit := acquired(t, hub)
	s.kill()
	permit.Settle(Outcome{Status: http.StatusOK})
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := c.Settled(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	s.restart()
	must(t, c.Settled(context.Background()))
}

func TestTheCodeOfAnErrorTellsASpentQuotaFromAForbiddenCall(t *testing.T) {
	month := `name = "month", algorithm = "quota", resets = "month", capacity = 1000`
	s := scheduler(t, strings.Replace(limits(month), `"api"`, "\"api\"\ndialect = \"sentinel-hub\"", 1))
	c, hub := s.client()
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, asked *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"error": {"status": 403, "code": %q}}`, asked.URL.Path[1:])
	}))
	t.Cleanup(answers.Close)
	call := func(code string) {
		response, err := (&http.Client{Transport: hub.WithPermits(nil, MaxWait(20*time.Second))}).Get(answers.URL + "/" + code)
		must(t, err)
		if body := text(t, response); !strings.Contains(body, code) {
			t.Fatal(body)
		}
		must(t, c.Settled(context.Background()))
	}
	call("ACCESS_FORBIDDEN")
	call("ACCESS_FORBIDDEN")
	call("ACCESS_INSUFFICIENT_PROCESSING_UNITS")
	var refused *Refused
	if _, err := hub.Acquire(context.Background(), nil, MaxWait(20*time.Second)); !errors.As(err, &refused) || refused.Code != "quota_spent" {
		t.Fatal(err)
	}
	s.settled(c, 3)
}

func TestAPriceGoesInPlaceOfACostAndRenewalsAndSettlesHaveTheCostThatWasComputed(t *testing.T) {
	hub, heard := grants(t, `"cost": {"units": 2.5}`)
	body := map[string]any{"output": map[string]any{"width": 512}}
	permit := acquired(t, hub, Price("sentinel-hub", "process", body), Age(3*time.Second))
	request, renewal := <-heard, <-heard
	permit.GiveBack()
	end := <-heard
	for end["extend"] == true {
		end = <-heard
	}
	shown, _ := json.Marshal([]any{request["price"], request["cost"], renewal["asked"], permit.Cost(), end["asked"]})
	expected := `[{"api":"process","body":{"output":{"width":512}},"kind":"sentinel-hub"},null,` +
		`{"cost":{"units":2.5}},{"units":2.5},{"cost":{"units":2.5}}]`
	if string(shown) != expected || request["age_ms"].(float64) < 3000 {
		t.Fatalf("%s, %v", shown, request)
	}
}

func TestAPermitAndItsRenewalsNameTheAccountAndARepeatDoesNot(t *testing.T) {
	hub, heard := grants(t, `"account": "team-b"`)
	permit := acquired(t, hub, Not("team-a"), Label("route", "/"))
	request, renewal := <-heard, <-heard
	permit.GiveBack()
	shown, _ := json.Marshal([]any{request["not"], permit.Account(), renewal["asked"], permit.want.Labels})
	expected := `[["team-a"],"team-b",{"cost":{"requests":1},"labels":{"account":"team-b","route":"/"}},{"route":"/"}]`
	if string(shown) != expected {
		t.Fatalf("%s", shown)
	}
}

func TestTheSameHeadersArePassedOnInAllLanguages(t *testing.T) {
	table, err := os.ReadFile("../protocol/tests/headers.txt")
	must(t, err)
	rows := strings.Split(strings.TrimSpace(string(table)), "\n")
	for _, row := range rows {
		passes, name, _ := strings.Cut(row, " ")
		if _, isPassed := limitHeaders(http.Header{name: {"1"}})[strings.ToLower(name)]; isPassed != (passes == "yes") {
			t.Error(row)
		}
	}
	if len(rows) < 40 {
		t.Fatal(len(rows))
	}
	long := http.Header{"Retry-After": {"1", "2"}, "Quota": {strings.Repeat("x", maxHeaderValue+1)}}
	long["Quota"+strings.Repeat("x", maxHeaderName)] = []string{"1"}
	for count := 0; count < 2*maxHeaders; count++ {
		long[fmt.Sprintf("Quota-%d", count)] = []string{"1"}
	}
	found := limitHeaders(long)
	if _, isLong := found["quota"]; isLong || len(found) != maxHeaders {
		t.Fatal(len(found))
	}
	if joined := limitHeaders(http.Header{"Retry-After": {"1", "2"}}); joined["retry-after"] != "1, 2" {
		t.Fatal(joined)
	}
}

func TestTheCodeInABody(t *testing.T) {
	for body, code := range map[string]string{
		`{"error": {"code": 403, "status": "RESOURCE_EXHAUSTED"}}`:                    "RESOURCE_EXHAUSTED",
		`{"error": {"errors": [{"reason": "rateLimitExceeded"}], "code": 403}}`:       "rateLimitExceeded",
		`{"errors": [{"extensions": {"code": "MAX_COST_EXCEEDED"}, "message": "x"}]}`: "MAX_COST_EXCEEDED",
		`{"type": "error", "error": {"type": "rate_limit_error", "message": "a"}}`:    "rate_limit_error",
		`{"error": "invalid_token", "error_description": "two words"}`:                "invalid_token",
		`{"__type": "ThrottlingException"}`:                                           "ThrottlingException",
		`{"error": "two words"}`:                                                      "",
		`[]`:                                                                          "",
		`<html>`:                                                                      "",
		`{"error": {"type": "` + strings.Repeat("x", 100) + `", "code": "insufficient_quota"}}`: "insufficient_quota",
	} {
		if found := codeIn([]byte(body)); found != code {
			t.Errorf("%s: %q, not %q", body, found, code)
		}
	}
}

func TestCostsAreRoundedUpAndIDsAreRandom(t *testing.T) {
	for amount, expected := range map[float64]float64{0: 0, 1: 1, 0.1: 0.1, 2.5: 2.5, 1e-7: 1e-6, 0.3333333: 0.333334, 1e9: 1e9} {
		if cost, err := exact(Requests(amount)); err != nil || cost["requests"] != expected {
			t.Errorf("%v: %v, %v", amount, cost, err)
		}
	}
	seen := map[string]bool{}
	for count := 0; count < 1000; count++ {
		seen[newID()] = true
		if drawn := chance(); drawn < 0 || drawn >= 1 {
			t.Fatal(drawn)
		}
	}
	if len(seen) != 1000 || len(newID()) != 36 {
		t.Fatal(len(seen), newID())
	}
}
