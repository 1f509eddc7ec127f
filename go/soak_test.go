package rampmeter

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// vendor is an API with slow bodies on an account of an upstream: a call of /3 takes three units there.
type vendor struct {
	*httptest.Server
	mutex                     sync.Mutex // guards what follows
	calls, atOnce, mostAtOnce int64
}

func (v *vendor) begin() {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.calls++
	if v.atOnce++; v.atOnce > v.mostAtOnce {
		v.mostAtOnce = v.atOnce
	}
}

func (v *vendor) end() {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.atOnce--
}

func startVendor(t *testing.T, up *upstream) *vendor {
	v := &vendor{}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, asked *http.Request) {
		v.begin()
		verdict, err := http.Get(up.url + "/process?units=" + asked.URL.Path[1:])
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, verdict.Body)
		verdict.Body.Close()
		w.WriteHeader(verdict.StatusCode)
		fmt.Fprint(w, "begun, ")
		w.(http.Flusher).Flush()
		time.Sleep(100 * time.Millisecond)
		v.end()
		fmt.Fprint(w, "ended")
	}))
	t.Cleanup(v.Close)
	return v
}

// RAMPMETER_SOAK=600 lets the client work for ten minutes. As many permits are used as calls are made, what
// is settled is what was charged, no call is answered 429, and no more calls are in flight than may be.
func TestWhatAClientPaysForAWhile(t *testing.T) {
	const rate, places, workers, stock = 20, 4, 64, 100_000_000
	seconds, err := strconv.ParseFloat(os.Getenv("RAMPMETER_SOAK"), 64)
	if err != nil {
		seconds = 4
	}
	calls := int64(rate * seconds)
	// The margins pay for calls that are two seconds late.
	tables := []string{`name = "rate", capacity = 60, period = "3s", margin = 40`,
		`name = "units", unit = "units", capacity = 180, period = "3s", margin = 120`,
		fmt.Sprintf(`name = "in-flight", algorithm = "concurrency", capacity = %d, time_to_live = "30s"`, places)}
	for _, unit := range []string{"requests", "units"} {
		table := `name = "all-%s", unit = "%s", algorithm = "quota", resets = "never", learn = false, capacity = %d`
		tables = append(tables, fmt.Sprintf(table, unit, unit, stock))
	}
	up := startUpstream(t, "--limit", "requests=60/3s", "--limit", "units=180/3s")
	v, s := startVendor(t, up), scheduler(t, limits(tables...))
	c, hub := s.client()
	caller := http.Client{Transport: hub.WithPermits(nil, Costs(Cost{"requests": 1, "units": 2}))}
	body := func(response *http.Response, err error) error {
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if text, err := io.ReadAll(response.Body); err != nil || !strings.HasSuffix(string(text), "ended") {
			return fmt.Errorf("%s: %q, %w", response.Status, text, err)
		}
		return nil
	}
	call := func(number int64) error {
		if number%2 == 0 {
			return body(caller.Get(v.URL + "/2"))
		}
		units := 1 + number%4 // Estimated as 4.
		return hub.RunOutcome(context.Background(), Cost{"requests": 1, "units": 4}, func() (Outcome, error) {
			response, err := http.Get(fmt.Sprint(v.URL, "/", units))
			outcome := OutcomeOf(response)
			outcome.Cost = Cost{"units": float64(units)}
			return outcome, body(response, err)
		})
	}
	begun := time.Now()
	var next atomic.Int64
	var group sync.WaitGroup
	for count := 0; count < workers; count++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for number := next.Add(1); number <= calls; number = next.Add(1) {
				if err := call(number); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	group.Wait()
	took := time.Since(begun)
	s.settled(c, float64(calls))
	stats := up.stats()
	t.Logf("%d calls in %.1f s, %d in flight, %v × 429", calls, took.Seconds(), v.mostAtOnce, stats.RateLimited)
	if v.calls != calls || stats.OK != float64(calls) || stats.RateLimited != 0 || v.mostAtOnce > places {
		t.Errorf("%+v, %d in flight", stats, v.mostAtOnce)
	}
	for index, unit := range []string{"requests", "units"} {
		settled, charged := stock-s.level("all-"+unit), stats.Policies[index].Spent
		t.Logf("%s: settled %v, charged %v", unit, settled, charged)
		if charged == 0 || settled < 0.99*charged || settled > 1.01*charged {
			t.Errorf("%s: settled %v, charged %v", unit, settled, charged)
		}
	}
}
