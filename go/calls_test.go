package rampmeter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Each call has one permit, 429s end, and a call lasts as long as its body.

const plenty = `name = "plenty", capacity = 1000000, period = "1s"`

func places(capacity string) string {
	return `name = "places", algorithm = "concurrency", capacity = ` + capacity + `, time_to_live = "5s"`
}

func text(t tester, response *http.Response) string {
	t.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return string(body)
}

func TestA429ReachesTheCallerAfterThreeRepeatsAndAtOnceIfNoWaitMendsIt(t *testing.T) {
	a, s := startAPI(t), scheduler(t, limits(plenty))
	c, hub := s.client()
	caller := http.Client{Transport: hub.WithPermits(nil)}
	for _, row := range []struct {
		path, code string
		calls      int64
	}{{"/throttled", "rate_limit_exceeded", 4}, {"/spent", "insufficient_quota", 5}} {
		response, err := caller.Get(a.URL + row.path)
		must(t, err)
		body := text(t, response)
		if response.StatusCode != 429 || a.calls.Load() != row.calls || !strings.Contains(body, row.code) {
			t.Fatalf("%s: %d, %d calls, %s", row.path, response.StatusCode, a.calls.Load(), body)
		}
	}
	response, err := hub.Run(context.Background(), nil, func() (*http.Response, error) { return http.Get(a.URL + "/throttled") }, Repeats(1))
	must(t, err)
	if body := text(t, response); response.StatusCode != 429 || a.calls.Load() != 7 || !strings.Contains(body, "too much") {
		t.Fatalf("%d, %d calls, %s", response.StatusCode, a.calls.Load(), body)
	}
	s.settled(c, 7)
}

func TestARefusalAfterA429HasItsResponse(t *testing.T) {
	a, s := startAPI(t), scheduler(t, limits(plenty))
	c, hub := s.client()
	caller := http.Client{Transport: hub.WithPermits(nil, MaxWait(20*time.Second))}
	_, err := caller.Get(a.URL + "/throttled/long")
	var late *NotInTime
	if !errors.As(err, &late) || late.RetryAfter < time.Minute || late.Response.StatusCode != 429 {
		t.Fatal(err)
	}
	if body := text(t, late.Response); !strings.Contains(body, "rate_limit_exceeded") {
		t.Fatal(body)
	}
	s.settled(c, 1)
}

func TestTheErrorOfAPackageIsTheCauseOfARefusal(t *testing.T) {
	s := scheduler(t, limits(plenty))
	c, hub := s.client()
	limited := errors.New("the package says: slow down")
	calls := 0
	err := hub.RunOutcome(context.Background(), nil, func() (Outcome, error) {
		calls++
		return Outcome{Status: 429, Header: http.Header{"Retry-After": {"3600"}}}, limited
	}, MaxWait(20*time.Second))
	if !errors.Is(err, limited) || !errors.As(err, new(*NotInTime)) || calls != 1 {
		t.Fatal(err, calls)
	}
	s.settled(c, 1)
}

func TestACallThatPanicsAndAPermitThatIsLostFreeTheirPlaces(t *testing.T) {
	s := scheduler(t, limits(places("1")))
	c, hub := s.client()
	ctx := context.Background()
	func() {
		defer func() { _ = recover() }()
		_, _ = hub.Run(ctx, nil, func() (*http.Response, error) { panic("in the call") })
	}()
	freed := make(chan error)
	next := func() {
		permit, err := hub.Acquire(ctx, nil, MaxWait(20*time.Second))
		_ = permit // Lost.
		freed <- err
	}
	for count := 0; count < 2; count++ {
		go next()
		eventually(t, "a free place", func() bool {
			runtime.GC()
			select {
			case err := <-freed:
				must(t, err)
				return true
			default:
				return false
			}
		})
	}
	eventually(t, "the last settle", func() bool { runtime.GC(); return s.counter("settled") == 3 })
	s.settled(c, 3)
}

func TestACallLastsAsLongAsItsBodyWherePlacesAreCounted(t *testing.T) {
	a, s := startAPI(t), scheduler(t, limits(places("2")))
	c, hub := s.client()
	caller := http.Client{Transport: hub.WithPermits(nil)}
	var group sync.WaitGroup
	for count := 0; count < 8; count++ {
		group.Add(1)
		go func() {
			defer group.Done()
			response, err := caller.Get(a.URL + "/slow")
			if err != nil {
				t.Error(err)
				return
			}
			if body := text(t, response); body != strings.Repeat("x", 6000) {
				t.Errorf("%d bytes", len(body))
			}
		}()
	}
	group.Wait()
	if a.mostAtOnce != 2 {
		t.Fatalf("%d calls at once", a.mostAtOnce)
	}
	for count := 0; count < 4; count++ { // More than there are places.
		response, err := caller.Get(a.URL + "/slow")
		must(t, err)
		response.Body.Close()
		response, err = caller.Head(a.URL)
		must(t, err)
		_ = response // It has no body, and ends with its head.
	}
	s.settled(c, 16)
}

func TestACallWithoutAConnectionIsGivenBack(t *testing.T) {
	s := scheduler(t, limits(`name = "few", capacity = 1, period = "1h"`))
	c, hub := s.client()
	gone := "http://" + freeAddress(t)
	caller := http.Client{Transport: hub.WithPermits(nil, MaxWait(20*time.Second))}
	for count := 0; count < 3; count++ {
		_, err := caller.Post(gone, "text/plain", strings.NewReader("a body"))
		if err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Fatal(err)
		}
		s.settled(c, 0)
		_, err = hub.Run(context.Background(), nil, func() (*http.Response, error) { return http.Get(gone) }, MaxWait(20*time.Second))
		if err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Fatal(err)
		}
		s.settled(c, 0)
	}
}

func TestACallThatEndsWithAnErrorCounts(t *testing.T) {
	s := scheduler(t, limits(plenty))
	c, hub := s.client()
	a := startAPI(t)
	ctx, cancel := context.WithCancel(context.Background())
	a.onCall = cancel
	asking, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL, nil)
	must(t, err)
	if _, err = (&http.Client{Transport: hub.WithPermits(nil)}).Do(asking); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	s.settled(c, 1)
}

func TestWhatACallNeeds(t *testing.T) {
	each := `name = "each", capacity = 3, period = "1h", margin = 0, key = ["client", "route"]`
	a, s := startAPI(t), scheduler(t, limits(each))
	c, _ := s.client()
	hub := c.Resource("api", Label("client", "a"), MaxWait(20*time.Second))
	needs := func(asked *http.Request) ([]Option, bool) {
		return []Option{Label("route", asked.URL.Path), Costs(Requests(2))}, asked.URL.Path != "/health"
	}
	caller := http.Client{Transport: hub.WithPermits(nil, Asking(needs))}
	for _, path := range []string{"/one", "/two", "/health", "/health"} {
		response, err := caller.Get(a.URL + path)
		must(t, err)
		text(t, response)
	}
	_, err := caller.Get(a.URL + "/one")
	if !errors.As(err, new(*NotInTime)) {
		t.Fatal(err)
	}
	s.settled(c, 2)
}

func TestACallIsMadeInTheFirstWayThatStartsInTime(t *testing.T) {
	large := `name = "large", capacity = 1, period = "1h", margin = 0, match = { model = "large" }`
	small := `name = "small", capacity = 10, period = "1h", margin = 0, match = { model = "small" }`
	s := scheduler(t, limits(large, small))
	c, _ := s.client()
	hub := c.Resource("api", Label("model", "large"))
	for way, cost := range []float64{1, 2} {
		permit := acquired(t, hub, Worth(5*time.Second), Or(Requests(2), map[string]string{"model": "small"}))
		if permit.Settle(Outcome{}); permit.Way() != way || permit.Cost()["requests"] != cost {
			t.Fatal(permit.Way(), permit.Cost())
		}
	}
	_, err := hub.Acquire(context.Background(), nil, Or(Requests(-1), nil))
	if refused := (*Refused)(nil); !errors.As(err, &refused) || refused.Code != "invalid_request" {
		t.Fatal(err)
	}
	if s.settled(c, 2); int(s.level("small")) != 8 {
		t.Fatal(s.level("small"))
	}
}

func TestEachWayIsWorthAWaitOfItsOwn(t *testing.T) {
	hub, heard := grants(t, `"way": 2, "account": "team-b"`)
	permit := acquired(t, hub, Label("model", "large"), Label("region", "eu"), Worth(5*time.Second),
		Or(nil, map[string]string{"model": "medium"}), Or(Requests(2), map[string]string{"model": "small", "region": ""}), Worth(time.Second))
	request, renewal := <-heard, <-heard
	permit.GiveBack()
	shown, _ := json.Marshal([]any{request["else_after_ms"], request["any_of"], renewal["asked"], permit.want.Labels})
	expected := `[5000,[{"labels":{"model":"medium"}},` +
		`{"cost":{"requests":2},"else_after_ms":1000,"labels":{"model":"small","region":""}}],` +
		`{"cost":{"requests":2},"labels":{"account":"team-b","model":"small"}},{"model":"large","region":"eu"}]`
	if string(shown) != expected {
		t.Fatalf("%s", shown)
	}
}

// brokenBody tells whether it was closed, and has no copy.
type brokenBody struct {
	io.Reader
	isClosed bool
}

func (b *brokenBody) Close() error {
	b.isClosed = true
	return nil
}

func TestABodyIsSentAgainIfThatIsPossibleAndClosedInAnyCase(t *testing.T) {
	a, s := startAPI(t), scheduler(t, limits(plenty))
	c, hub := s.client()
	transport := hub.WithPermits(nil)
	response, err := (&http.Client{Transport: transport}).Post(a.URL+"/throttled", "text/plain", strings.NewReader("a body"))
	must(t, err)
	text(t, response)
	if len(a.bodies) != 4 || strings.Join(a.bodies, ",") != "a body,a body,a body,a body" {
		t.Fatalf("%q", a.bodies)
	}
	streamed := &brokenBody{Reader: bytes.NewBufferString("a stream")}
	asking, err := http.NewRequest(http.MethodPost, a.URL+"/throttled", streamed)
	must(t, err)
	response, err = transport.RoundTrip(asking)
	must(t, err)
	text(t, response)
	if len(a.bodies) != 5 || a.bodies[4] != "a stream" || !streamed.isClosed {
		t.Fatalf("%q, %v", a.bodies, streamed.isClosed)
	}
	unsent := &brokenBody{Reader: bytes.NewBufferString("never sent")}
	asking, err = http.NewRequest(http.MethodPost, a.URL, unsent)
	must(t, err)
	_, err = hub.WithPermits(nil, Costs(Requests(2e6))).RoundTrip(asking)
	var refused *Refused
	if !errors.As(err, &refused) || refused.Code != "never_fits" || !unsent.isClosed {
		t.Fatal(err, unsent.isClosed)
	}
	s.settled(c, 5)
}

func TestATimeoutOfTheHTTPClientCountsTheWait(t *testing.T) {
	a, s := startAPI(t), scheduler(t, limits(slow))
	c, hub := s.client()
	caller := http.Client{Transport: hub.WithPermits(nil), Timeout: 20 * time.Second}
	response, err := caller.Get(a.URL)
	must(t, err)
	text(t, response)
	begun := time.Now()
	_, err = caller.Get(a.URL)
	var late *NotInTime
	if !errors.As(err, &late) || late.LimitedBy != "slow" || time.Since(begun) > 19*time.Second {
		t.Fatal(err, time.Since(begun))
	}
	s.settled(c, 1)
}

func TestWhatIsSettledIsWhatTheUpstreamHasCharged(t *testing.T) {
	up := startUpstream(t, "--limit", "requests=100/1h", "--limit", "units=100/1h")
	tables := []string{`name = "calls", capacity = 100, period = "1h", margin = 0`,
		`name = "units", unit = "units", capacity = 100, period = "1h", margin = 0`}
	s := scheduler(t, limits(tables...))
	c, hub := s.client()
	const calls, actual = 9, "3"
	for count := 0; count < calls; count++ {
		permit, err := hub.Acquire(context.Background(), Cost{"requests": 1, "units": 10})
		must(t, err)
		response, err := http.Get(up.url + "/process?units=" + actual)
		must(t, err)
		outcome := OutcomeOf(response)
		outcome.Cost = Cost{"units": 3}
		permit.Settle(outcome)
		permit.Settle(Outcome{}) // The first one counts.
		permit.GiveBack()
		text(t, response)
	}
	s.settled(c, calls)
	stats := up.stats()
	for index, limit := range []string{"calls", "units"} {
		charged := 100 - stats.Policies[index].Spent
		// An hour refills 100: a thirtieth of one a second.
		if level := s.level(limit); level < charged || level > charged+1 {
			t.Errorf("%s: %v are left, and %v at the upstream", limit, level, charged)
		}
	}
	if stats.OK != calls || stats.RateLimited != 0 {
		t.Errorf("%+v", stats)
	}
}
