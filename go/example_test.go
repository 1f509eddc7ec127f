package rampmeter_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"rampmeter"
)

// Examples find a scheduler at RAMPMETER_URL, with the resource "my-api", and an API at API_URL.

func ExampleNew() {
	client := rampmeter.New("", // of RAMPMETER_URL
		rampmeter.WithToken("a token that the scheduler knows"),
		rampmeter.WithTransport(http.DefaultTransport),
		rampmeter.WithLog(func(message string) { fmt.Println(message) }),
		rampmeter.UnreachableFail(5*time.Second))
	defer client.Close()
	permit, err := client.Resource("my-api").Acquire(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	permit.GiveBack()
	fmt.Println(permit.Cost())
	// Output: map[requests:1]
}

func ExampleUnreachableSafeRate() {
	client := rampmeter.New("http://127.0.0.1:1", rampmeter.UnreachableSafeRate(100, time.Second, 100*time.Millisecond))
	permit, err := client.Resource("my-api").Acquire(context.Background(), nil)
	fmt.Println(permit.ID() == "", err)
	// Output: true <nil>
}

func ExampleClient_Settled() {
	client := rampmeter.New("")
	permit, _ := client.Resource("my-api").Acquire(context.Background(), nil)
	permit.Settle(rampmeter.Outcome{Status: http.StatusOK})
	fmt.Println(client.Settled(context.Background()), client.Close())
	// Output: <nil> <nil>
}

func ExampleResource_WithPermits() {
	resource := rampmeter.New("").Resource("my-api", rampmeter.Class("bulk"))
	caller := http.Client{Transport: resource.WithPermits(nil, rampmeter.MaxWait(time.Minute))}
	response, err := caller.Get(os.Getenv("API_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	fmt.Println(response.Status)
	// Output: 200 OK
}

func ExampleAsking() {
	needs := func(request *http.Request) ([]rampmeter.Option, bool) {
		units := rampmeter.Cost{"requests": 1, "units": float64(request.ContentLength)}
		return []rampmeter.Option{rampmeter.Costs(units)}, request.URL.Path != "/health"
	}
	resource := rampmeter.New("").Resource("my-api")
	caller := http.Client{Transport: resource.WithPermits(nil, rampmeter.Asking(needs))}
	response, err := caller.Get(os.Getenv("API_URL") + "/health")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	fmt.Println(response.Status)
	// Output: 200 OK
}

func ExampleResource_Run() {
	resource := rampmeter.New("").Resource("my-api")
	call := func() (*http.Response, error) { return http.Get(os.Getenv("API_URL")) }
	response, err := resource.Run(context.Background(), rampmeter.Requests(2), call, rampmeter.Repeats(9))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	fmt.Println(response.Status)
	// Output: 200 OK
}

func ExampleResource_RunOutcome() {
	resource, answer := rampmeter.New("").Resource("my-api"), ""
	err := resource.RunOutcome(context.Background(), nil, func() (rampmeter.Outcome, error) {
		answer = "of a package that does not show its responses"
		return rampmeter.Outcome{Status: http.StatusOK, Cost: rampmeter.Cost{"units": 3}}, nil
	}, rampmeter.Costs(rampmeter.Cost{"requests": 1, "units": 5}))
	fmt.Println(answer, err)
	// Output: of a package that does not show its responses <nil>
}

func ExampleResource_Acquire() {
	resource := rampmeter.New("").Resource("my-api")
	permit, err := resource.Acquire(context.Background(), rampmeter.Cost{"requests": 1, "units": 5},
		rampmeter.Label("client", "team-a"), rampmeter.Age(time.Second), rampmeter.Deadline(time.Now().Add(time.Minute)))
	if err != nil {
		fmt.Println(err)
		return
	}
	response, err := http.Get(os.Getenv("API_URL"))
	if err != nil {
		permit.Settle(rampmeter.Outcome{}) // It may have arrived.
		return
	}
	defer response.Body.Close()
	permit.Settle(rampmeter.OutcomeOf(response))
	fmt.Println(response.Status, permit.HasPlace(), permit.LimitedBy(), permit.Waited() >= time.Second)
	// Output: 200 OK false  true
}

func ExampleResource_TryAcquire() {
	_, err := rampmeter.New("").Resource("my-api").TryAcquire(context.Background(), rampmeter.Requests(1e6))
	var refused *rampmeter.Refused
	fmt.Println(errors.As(err, &refused), refused.Code, refused.LimitedBy, refused.RetryAfter)
	// Output: true never_fits rate 0s
}

func ExampleResource_Reserve() {
	ctx := context.Background()
	permit, err := rampmeter.New("").Resource("my-api").Reserve(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if permit.Delay() > time.Hour {
		permit.GiveBack()
		return
	}
	err = permit.Ready(ctx)
	permit.Settle(rampmeter.Outcome{Status: http.StatusOK})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleOr() {
	models := []string{"large", "small"}
	permit, err := rampmeter.New("").Resource("my-api").Acquire(context.Background(), nil,
		rampmeter.Label("model", models[0]), rampmeter.Worth(5*time.Second),
		rampmeter.Or(nil, map[string]string{"model": models[1]}))
	if err != nil {
		fmt.Println(err)
		return
	}
	permit.GiveBack()
	fmt.Println(models[permit.Way()])
	// Output: large
}

func ExampleNotInTime() {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := rampmeter.New("http://127.0.0.1:1").Resource("my-api").Acquire(ctx, nil)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

func ExampleUnreachable() {
	client := rampmeter.New("http://127.0.0.1:1", rampmeter.UnreachableFail(50*time.Millisecond))
	_, err := client.Resource("my-api").Acquire(context.Background(), nil)
	var unreachable *rampmeter.Unreachable
	fmt.Println(errors.As(err, &unreachable), unreachable.RetryAfter > 0)
	// Output: true true
}

func ExamplePrice() {
	body := map[string]any{"output": map[string]any{"width": 512, "height": 512}}
	resource := rampmeter.New("").Resource("my-api", rampmeter.Price("sentinel-hub", "process", body))
	_, err := resource.Acquire(context.Background(), nil)
	var refused *rampmeter.Refused
	fmt.Println(errors.As(err, &refused), refused.Code) // "my-api" computes no costs.
	// Output: true invalid_request
}
