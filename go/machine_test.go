package rampmeter

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Real schedulers and upstreams: the binary that RAMPMETER_BINARY names, on free ports.

const longest = 30 * time.Second // that a server may take on a loaded machine

// deadManSwitch runs a program until its own standard input ends, which it does with the test at the
// latest.
const deadManSwitch = `"$@" >&2 & echo $!; cat > /dev/null; kill -9 $!`

// tester is what is used of a test. A program of tests is one, too.
type tester interface {
	Helper()
	Error(...any)
	Fatal(...any)
	Fatalf(string, ...any)
	Cleanup(func())
}

// whole is the program of tests, for what its examples need.
type whole struct{ cleanups []func() }

func (*whole) Helper()                       {}
func (*whole) Error(why ...any)              { panic(fmt.Sprint(why...)) }
func (*whole) Fatal(why ...any)              { panic(fmt.Sprint(why...)) }
func (*whole) Fatalf(text string, of ...any) { panic(fmt.Sprintf(text, of...)) }
func (w *whole) Cleanup(cleanup func())      { w.cleanups = append(w.cleanups, cleanup) }

const myAPI = `[[resource]]
name = "my-api"
default_class = "standard"
classes = [{ name = "standard" }, { name = "bulk" }]
limit = [
  { name = "rate", capacity = 1000, period = "1s" },
  { name = "units", unit = "units", capacity = 1000, period = "1s" },
]
`

func TestMain(m *testing.M) {
	w := &whole{}
	os.Setenv("RAMPMETER_URL", scheduler(w, myAPI).url)
	os.Setenv("API_URL", startAPI(w).URL)
	code := m.Run()
	for index := len(w.cleanups) - 1; index >= 0; index-- {
		w.cleanups[index]()
	}
	os.Exit(code)
}

// process is a running program, and how to stop it.
type process struct {
	command *exec.Cmd
	stdin   io.Closer
	pid     int
	log     strings.Builder
}

func start(t tester, arguments ...string) *process {
	t.Helper()
	binary := os.Getenv("RAMPMETER_BINARY")
	if binary == "" {
		t.Fatal("set RAMPMETER_BINARY, or run go/check")
	}
	p := &process{command: exec.Command("sh", append([]string{"-c", deadManSwitch, "sh", binary}, arguments...)...)}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "RAMPMETER_") {
			p.command.Env = append(p.command.Env, variable)
		}
	}
	p.command.Stderr = &p.log
	stdin, err := p.command.StdinPipe()
	must(t, err)
	stdout, err := p.command.StdoutPipe()
	must(t, err)
	must(t, p.command.Start())
	p.stdin = stdin
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
	p.pid, err = strconv.Atoi(strings.TrimSpace(line))
	must(t, err)
	t.Cleanup(p.kill)
	return p
}

// kill ends it as a power cut does.
func (p *process) kill() {
	p.stdin.Close()
	_ = p.command.Wait()
}

func (p *process) signal(number syscall.Signal) { _ = syscall.Kill(p.pid, number) }

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until something is so.
func eventually(t tester, what string, isSo func() bool) {
	t.Helper()
	for end := time.Now().Add(longest); !isSo(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not happen within %v", what, longest)
		}
	}
}

// folder returns an empty one, which is removed once nothing writes into it any more.
func folder(t tester) string {
	t.Helper()
	path, err := os.MkdirTemp("", "rampmeter-go-")
	must(t, err)
	t.Cleanup(func() {
		eventually(t, "the end of "+path, func() bool { return os.RemoveAll(path) == nil })
	})
	return path
}

func freeAddress(t tester) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// page returns what is at a URL; "" if nothing is.
func page(url string) string {
	response, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// server is a scheduler that can be started again.
type server struct {
	t         tester
	url, nats string
	arguments []string
	*process
}

func (s *server) restart() {
	s.t.Helper()
	s.process = start(s.t, s.arguments...)
	eventually(s.t, "a scheduler that leads", func() bool { return page(s.url+"/readyz") != "" })
}

// natsServer starts a NATS server, whose data outlive it.
func natsServer(t tester) *server {
	t.Helper()
	return scheduler(t, strings.Replace(limits(`name = "unused", capacity = 1, period = "1s"`), `"api"`, `"unused"`, 1))
}

// scheduler starts a scheduler of these resources, with a NATS server of its own or that of another one.
func scheduler(t tester, text string, at ...*server) *server {
	t.Helper()
	folder, listen, nats := folder(t), freeAddress(t), "nats://"+freeAddress(t)
	file := filepath.Join(folder, "rampmeter.toml")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	arguments := []string{"serve", file, "--listen", listen}
	if len(at) > 0 {
		nats = at[0].nats
	} else {
		arguments = append(arguments, "--embedded-nats", "--data", filepath.Join(folder, "data"))
	}
	s := &server{t: t, url: "http://" + listen, nats: nats, arguments: append(arguments, "--nats", nats)}
	s.restart()
	return s
}

// limits is a configuration of a resource "api" with these limits.
func limits(tables ...string) string {
	return fmt.Sprintf("[[resource]]\nname = \"api\"\nlimit = [{ %s }]\n", strings.Join(tables, " }, { "))
}

// counter returns the sum of a counter, from the scheduler's metrics.
func (s *server) counter(name string) (sum float64) {
	for _, row := range strings.Split(page(s.url+"/metrics"), "\n") {
		if strings.HasPrefix(row, "rampmeter_"+name+"_total{") {
			value, _ := strconv.ParseFloat(row[strings.LastIndex(row, " ")+1:], 64)
			sum += value
		}
	}
	return sum
}

// level returns what a limit has left.
func (s *server) level(limit string) float64 {
	s.t.Helper()
	text, err := exec.Command(os.Getenv("RAMPMETER_BINARY"), "status", "--json", "--nats", s.nats).Output()
	must(s.t, err)
	var resources []struct {
		Limits []struct {
			Name  string
			Level float64
		}
	}
	read(s.t, string(text), &resources)
	for _, resource := range resources {
		for _, each := range resource.Limits {
			if each.Name == limit {
				return each.Level
			}
		}
	}
	s.t.Fatalf("there is no limit %s: %s", limit, text)
	return 0
}

// client returns a client of the scheduler, and its resource "api".
func (s *server) client(options ...ClientOption) (*Client, *Resource) {
	c := New(s.url, append([]ClientOption{WithLog(func(string) {})}, options...)...)
	s.t.Cleanup(func() { _ = c.Close() })
	return c, c.Resource("api")
}

// settled fails unless as many permits were used as calls were made, and all are settled.
func (s *server) settled(c *Client, calls float64) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	must(s.t, c.Settled(ctx))
	if used := s.counter("granted") - s.counter("returned"); used != calls {
		s.t.Fatalf("%v permits were used for %v calls", used, calls)
	}
}

// upstream is a service that enforces limits and knows nothing of the scheduler.
type upstream struct {
	t   tester
	url string
}

func startUpstream(t tester, arguments ...string) *upstream {
	t.Helper()
	listen := freeAddress(t)
	start(t, append([]string{"upstream", "--listen", listen, "--response-ms", "5"}, arguments...)...)
	u := &upstream{t, "http://" + listen}
	eventually(t, "an upstream", func() bool { return page(u.url+"/stats") != "" })
	return u
}

type statistics struct {
	Sent, OK    float64
	RateLimited float64 `json:"rate_limited"`
	Policies    []struct {
		Unit  string
		Spent float64
	}
}

func (u *upstream) stats() (read statistics) {
	u.t.Helper()
	must(u.t, json.Unmarshal([]byte(page(u.url+"/stats")), &read))
	return read
}

// api is a service whose paths say how it answers: with 429 for ever, without money, or with a body
// that takes its time.
type api struct {
	*httptest.Server
	onCall        func() // in place of an answer
	calls, atOnce atomic.Int64
	mutex         sync.Mutex // guards what follows
	mostAtOnce    int64
	bodies        []string
}

func startAPI(t tester) *api {
	a := &api{}
	a.Server = httptest.NewServer(http.HandlerFunc(a.answer))
	t.Cleanup(a.Close)
	return a
}

func (a *api) answer(w http.ResponseWriter, asked *http.Request) {
	a.calls.Add(1)
	present := a.atOnce.Add(1)
	defer a.atOnce.Add(-1)
	body, _ := io.ReadAll(asked.Body)
	a.mutex.Lock()
	a.bodies = append(a.bodies, string(body))
	if present > a.mostAtOnce {
		a.mostAtOnce = present
	}
	a.mutex.Unlock()
	after := map[string]string{"/throttled": "retry-after-ms: 20", "/throttled/long": "retry-after: 3600", "/spent": "retry-after: 1"}
	switch header, isThrottled := after[asked.URL.Path]; {
	case a.onCall != nil:
		a.onCall()
		<-asked.Context().Done()
	case isThrottled:
		name, value, _ := strings.Cut(header, ": ")
		code := map[bool]string{true: "insufficient_quota", false: "rate_limit_exceeded"}[asked.URL.Path == "/spent"]
		w.Header().Set(name, value)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprintf(w, `{"error": {"message": "too much", "code": %q}}`, code)
	case asked.URL.Path == "/slow":
		for part := 0; part < 6 && asked.Context().Err() == nil; part++ {
			time.Sleep(50 * time.Millisecond)
			fmt.Fprint(w, strings.Repeat("x", 1000))
			w.(http.Flusher).Flush()
		}
	default:
		fmt.Fprint(w, "ok")
	}
}

// grants starts a front that grants all requests with these fields and leases of 150 ms. It returns its
// resource, and what it hears.
func grants(t tester, fields string) (*Resource, <-chan map[string]any) {
	heard := make(chan map[string]any, 100)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, asked *http.Request) {
		var message map[string]any
		body, _ := io.ReadAll(asked.Body)
		if json.Unmarshal(body, &message) != nil { // Settles travel as an array.
			var settles []map[string]any
			_ = json.Unmarshal(body, &settles)
			message = settles[0]
		}
		heard <- message
		answer := `{"status": "settled", "id": "a"}`
		if asked.URL.Path == "/v1/permit/api" {
			answer = `{"status": "granted", "id": "a", "delay_ms": 0, "lease_ms": 150, "epoch": 1, ` + fields + `}`
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(front.Close)
	return New(front.URL).Resource("api"), heard
}
