package rampmeter

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// The rules of a client's session: protocol/session-scripts/README.md says how to read them.

const (
	// scriptOrigin is the time at which a script begins.
	scriptOrigin millis = 1_000_000
	// plays is how often each script is played: chance has a part.
	plays = 20
)

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("../protocol/session-scripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no scripts to play", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if strings.Contains(string(text), " freeze ") {
			continue // Nobody tells of one over HTTP.
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			for count := 0; count < plays; count++ {
				playScript(t, lines[1:])
			}
		})
	}
}

// play is one run of a script. The session runs in a goroutine, and never at the same time as the test.
type play struct {
	t          *testing.T
	now        millis
	schedulers *schedulers
	done       []string
	ids        []string
	resume     chan reply
	stopped    chan struct{} // whenever the session waits for the script
}

func playScript(t *testing.T, lines []string) {
	t.Helper()
	p := &play{t: t, resume: make(chan reply), stopped: make(chan struct{})}
	p.schedulers = newSchedulers(forever, forever, func(string) {})
	for _, line := range lines {
		switch {
		case strings.HasPrefix(line, ">? "): // This client leaves it out.
		case strings.HasPrefix(line, "> "):
			p.expect(line[2:])
		default:
			p.happen(line)
		}
	}
	if len(p.done) > 0 {
		t.Fatalf("at the end: %q", p.done)
	}
}

func (p *play) happen(line string) {
	p.t.Helper()
	if len(p.done) > 0 {
		p.t.Fatalf("before %q: %q", line, p.done)
	}
	words := strings.SplitN(line+" ", " ", 3)
	var at millis
	read(p.t, words[0], &at)
	p.now = scriptOrigin + at
	switch rest := strings.TrimSpace(words[2]); words[1] {
	case "policy":
		p.setPolicy(rest)
		return
	case "ask":
		p.ask(rest)
	case "answer":
		heard, _ := answersIn([]byte(rest))
		p.resume <- heard
	case "silence":
		p.resume <- reply{unheard: "it was silent"}
	case "hangup":
		p.resume <- reply{unheard: "it hung up", wasSent: true}
	case "wake":
		p.resume <- reply{}
	default:
		p.t.Fatalf("an event is not known: %s", line)
	}
	<-p.stopped
}

func (p *play) setPolicy(text string) {
	policy := struct {
		Fail  millis `json:"fail_after_ms"`
		Rate  millis `json:"safe_rate_ms"`
		After millis `json:"after_ms"`
	}{Rate: forever}
	read(p.t, text, &policy)
	p.schedulers = newSchedulers(policy.Fail+policy.After, policy.Rate, func(string) {})
}

func (p *play) ask(text string) {
	want := &ask{}
	read(p.t, text, &want.request)
	want.since, want.deadline = p.now-millis(want.Age), forever
	if want.MaxWait != nil {
		want.deadline = p.now + *want.MaxWait
	}
	s := newSession(want, p.schedulers)
	s.now = func() millis { return p.now }
	s.send = func(message request) (reply, error) {
		id := p.ordinal(message.ID)
		message.ID = ""
		text, err := json.Marshal(message)
		return p.wait(fmt.Sprintf("send %d %s", id, text)), err
	}
	s.pause = func(until millis) error {
		p.wait(fmt.Sprintf("pause %v", until-scriptOrigin))
		return nil
	}
	s.giveBack = func(id string) { p.done = append(p.done, fmt.Sprintf("give back %d", p.ordinal(id))) }
	go func() {
		granted := s.permit()
		p.done = append(p.done, ending(granted))
		if granted.answer.Lease > 0 {
			permit := &Permit{want: want, granted: granted}
			told, _ := json.Marshal(asked{permit.Cost(), permit.labels()})
			p.done = append(p.done, "asked "+string(told))
		}
		p.stopped <- struct{}{}
	}()
}

// wait has done something, and goes on with the next event.
func (p *play) wait(done string) reply {
	p.done = append(p.done, done)
	p.stopped <- struct{}{}
	return <-p.resume
}

func ending(granted step) string {
	var refused *Refused
	switch {
	case errors.As(granted.err, &refused):
		return "refused " + refused.Code
	case errors.As(granted.err, new(*Unreachable)):
		return "unreachable"
	case granted.err != nil:
		return granted.err.Error()
	}
	told := fmt.Sprintf("granted %v", granted.at-scriptOrigin)
	if granted.id == "" {
		told += " local"
	}
	if granted.answer.Account != "" {
		told += " by " + granted.answer.Account
	}
	if granted.answer.Way > 0 {
		told += fmt.Sprintf(" in way %d", granted.answer.Way)
	}
	return told
}

// ordinal counts ids: the first one that the session shows is 1.
func (p *play) ordinal(id string) int {
	for index, known := range p.ids {
		if known == id {
			return index + 1
		}
	}
	p.ids = append(p.ids, id)
	return len(p.ids)
}

var spanned = regexp.MustCompile(`^(\w+) (\d+)\.\.(\d+)$`)

func (p *play) expect(expected string) {
	p.t.Helper()
	if len(p.done) == 0 {
		p.t.Fatalf("it has not done: %s", expected)
	}
	done := p.done[0]
	p.done = p.done[1:]
	parts, sent := spanned.FindStringSubmatch(expected), strings.SplitN(expected, " ", 3)
	isDone := done == expected
	switch {
	case parts != nil:
		var verb string
		var at, from, to millis
		fmt.Sscan(strings.Join(parts[2:], " "), &from, &to)
		fmt.Sscan(done, &verb, &at)
		isDone = verb == parts[1] && at >= from && at <= to
	case sent[0] == "asked":
		isDone = strings.HasPrefix(done, "asked ") && hasFields(p.t, done[len("asked "):], expected[len("asked "):])
	case sent[0] == "send":
		isDone = strings.HasPrefix(done, "send "+sent[1]+" ") && hasFields(p.t, strings.SplitN(done, " ", 3)[2], sent[2])
	}
	if !isDone {
		p.t.Fatalf("%s, not %s", done, expected)
	}
}

func hasFields(t *testing.T, sent, expected string) bool {
	var fields, wanted map[string]any
	read(t, sent, &fields)
	read(t, expected, &wanted)
	for name, value := range wanted {
		if !reflect.DeepEqual(fields[name], value) {
			return false
		}
	}
	return true
}

func read(t tester, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
