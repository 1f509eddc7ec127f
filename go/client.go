// Package rampmeter asks for permits before calls of a rate-limited API, so that no caller is
// answered 429. Many programs share the limits of one account: each call asks a scheduler, which
// answers when it may start.
//
// A Client knows the schedulers, a Resource is one account, and a Permit is the right to make one
// call. WithPermits gives each request of an http.Client a permit, Run one call, and Acquire whatever
// the caller does with it. All of them may be used by several goroutines.
package rampmeter

import (
	"context"
	"fmt"
	"log"
	"math"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	// maxPulse is how long a request is open before its host is asked whether it is there.
	maxPulse millis = 5_000
	// maxIdle is how many connections to a front are kept for later requests.
	maxIdle = 64
	// closing is how long Close waits for a scheduler.
	closing = 2 * time.Second
)

var nameOf = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Client asks schedulers for permits. Make one for the whole program, and Close it at the end.
type Client struct {
	token              string
	transport          http.RoundTripper
	patience, interval millis
	log                func(string)
	err                error

	accounts sync.Map // of *account by name

	mutex  sync.Mutex // guards what follows
	fronts []*front   // the first one is asked, until it fails
}

// ClientOption is an option of New.
type ClientOption func(*Client)

// WithToken shows this token to the front, in place of the one in RAMPMETER_TOKEN.
func WithToken(token string) ClientOption { return func(c *Client) { c.token = token } }

// WithTransport reaches schedulers by this transport, for authorities or a proxy of your own.
func WithTransport(by http.RoundTripper) ClientOption { return func(c *Client) { c.transport = by } }

// WithLog tells people of silent schedulers and lost settles by this function; by default the package
// log does.
func WithLog(log func(message string)) ClientOption { return func(c *Client) { c.log = log } }

// UnreachableFail has requests fail as Unreachable while no scheduler has answered for so long. By
// default they wait.
func UnreachableFail(after time.Duration) ClientOption { return UnreachableSafeRate(0, 1, after) }

// UnreachableSafeRate has calls go on at a rate that is known to be safe while no scheduler has
// answered for so long. Each process counts for itself, and only calls count, not their costs.
func UnreachableSafeRate(calls int, per, after time.Duration) ClientOption {
	interval := math.Max(1, millisOf(per)) / math.Max(0, float64(calls))
	return func(c *Client) { c.patience, c.interval = math.Max(1, millisOf(after)), interval }
}

// New returns a client of the schedulers at these URLs: the addresses of their HTTP fronts, such as
// "http://127.0.0.1:9480", several with commas between them. The first one is asked, until it fails.
// If urls is empty, RAMPMETER_URL has them. Nothing is sent before the first request, which also tells
// that an address is wrong.
func New(urls string, options ...ClientOption) *Client {
	ours := http.DefaultTransport.(*http.Transport).Clone()
	ours.MaxIdleConnsPerHost = maxIdle
	c := &Client{patience: forever, interval: forever, transport: ours}
	c.token, c.log = os.Getenv("RAMPMETER_TOKEN"), func(message string) { log.Print(message) }
	for _, option := range options {
		option(c)
	}
	if urls == "" {
		urls = os.Getenv("RAMPMETER_URL")
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, each := range strings.Split(urls, ",") {
		parsed, err := url.Parse(strings.TrimSpace(each))
		if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" || parsed.User != nil {
			c.err = invalid("give New, or RAMPMETER_URL, http://HOST:PORT or https://HOST:PORT; a password goes into WithToken")
			break
		}
		front := &front{url: strings.TrimRight(parsed.String(), "/"), token: strings.TrimSpace(c.token)}
		front.http, front.pulse = &http.Client{Transport: c.transport, CheckRedirect: stay}, math.Min(maxPulse, c.patience/2)
		c.fronts = append(c.fronts, front)
	}
	return c
}

// Resource returns a rate-limited account, by its name in the schedulers' configuration. The options
// are those of all its requests; a request may have others beside them.
func (c *Client) Resource(name string, options ...Option) *Resource {
	known, _ := c.accounts.LoadOrStore(name, newAccount(c, name))
	return &Resource{known.(*account), options}
}

// Settled waits until a scheduler has taken all settles, or the context ends.
func (c *Client) Settled(ctx context.Context) (err error) {
	c.accounts.Range(func(_, known any) bool {
		err = known.(*account).outbox.settled(ctx)
		return err == nil
	})
	return err
}

// Close waits until a scheduler has taken all settles, for at most two seconds. A program that ends
// without it may lose its last settles: their calls then count as made, at their estimates.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	return c.Settled(ctx)
}

// post asks the first front. If it is not heard, the next one is asked from now on.
func (c *Client) post(ctx context.Context, path string, body []byte, end millis) (reply, error) {
	c.mutex.Lock()
	front := c.fronts[0]
	c.mutex.Unlock()
	heard, err := front.post(ctx, path, body, end)
	if ctx.Err() != nil {
		return reply{}, ctx.Err()
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if heard.unheard != "" && c.fronts[0] == front {
		c.fronts = append(c.fronts[1:], front)
	}
	return heard, err
}

// account is what a client knows of a resource.
type account struct {
	client     *Client
	name       string
	err        error // why there can be no permit
	outbox     *outbox
	mutex      sync.Mutex // guards schedulers
	schedulers *schedulers
}

func newAccount(client *Client, name string) *account {
	a := &account{client: client, name: name, err: client.err}
	if !nameOf.MatchString(name) {
		a.err = invalid(fmt.Sprintf("a resource is named by 1 to 64 of [A-Za-z0-9_-], not %q", name))
	}
	// In a goroutine, because a mutex may be held.
	tell := func(message string) { go client.log("rampmeter: " + name + ": " + message) }
	a.outbox = &outbox{log: tell, send: func(body []byte, end millis) (reply, error) {
		return client.post(context.Background(), "/v1/settle/"+name, body, end)
	}}
	a.schedulers = newSchedulers(client.patience, client.interval, tell)
	return a
}
