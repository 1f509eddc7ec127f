package rampmeter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
)

// maxAnswer is the most bytes of an answer: a thousand receipts of settles.
const maxAnswer = 1 << 20

// reply has the answers of a scheduler, or why there are none. A scheduler may have granted what
// wasSent.
type reply struct {
	answers []answer
	unheard string
	wasSent bool
}

// front is the HTTP front of one scheduler.
type front struct {
	url, token string
	http       *http.Client
	// pulse is how long a request is open before the host is asked whether it is there, again and again.
	pulse millis

	health    sync.Mutex // held while the host is asked, and guards what it answered
	isThere   bool
	askedNext millis
}

// post sends a body until end, or until the context ends or the host is gone. The error says that
// asking again is useless.
func (f *front) post(ctx context.Context, path string, body []byte, end millis) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, duration(end-now()))
	defer cancel()
	go f.feelPulse(ctx, cancel)
	status, text, err := f.exchange(ctx, http.MethodPost, path, body)
	if err != nil && strings.Contains(err.Error(), "malformed HTTP") {
		return reply{}, notRampmeter(err.Error())
	}
	if err != nil {
		return reply{unheard: err.Error(), wasSent: !wasUnsent(err)}, nil
	}
	if heard, isRead := answersIn(text); isRead {
		return heard, nil
	}
	what := fmt.Sprintf("%s answered %d: %.200s", f.url, status, bytes.TrimSpace(text))
	switch { // It is a mistake, or of a proxy whose scheduler may come back.
	case status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests:
		return reply{unheard: what, wasSent: true}, nil
	case status == http.StatusUnauthorized:
		return reply{}, refusal("wrong_token", what+"; give WithToken one that the scheduler knows", forever, "")
	}
	return reply{}, notRampmeter(what)
}

func notRampmeter(what string) error {
	return refusal("not_rampmeter", what+"; give New the address of a scheduler, its [http] `listen`", forever, "")
}

func (f *front) exchange(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	asking, err := http.NewRequestWithContext(ctx, method, f.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	asking.Header.Set("Content-Type", "application/json")
	if f.token != "" {
		asking.Header.Set("Authorization", "Bearer "+f.token)
	}
	response, err := f.http.Do(asking)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response.StatusCode, text, err
}

// feelPulse ends a request whose host is gone. A scheduler may be silent about a request that waits; a
// host that is gone is silent for ever.
func (f *front) feelPulse(ctx context.Context, end func()) {
	for pause(ctx, now()+f.pulse) == nil {
		f.health.Lock()
		if now() >= f.askedNext { // All requests share what one of them finds out.
			ctx, cancel := context.WithTimeout(context.Background(), duration(f.pulse))
			_, _, err := f.exchange(ctx, http.MethodGet, "/healthz", nil)
			f.isThere, f.askedNext = err == nil, now()+f.pulse/2
			cancel()
		}
		if !f.isThere {
			end()
		}
		f.health.Unlock()
	}
}

// answersIn returns the answers of a scheduler in a text, if it has any. A front that finds no scheduler
// answers for none.
func answersIn(text []byte) (reply, bool) {
	answers := make([]answer, 1)
	if json.Unmarshal(text, &answers[0]) != nil && json.Unmarshal(text, &answers) != nil {
		return reply{}, false
	}
	isRead := len(answers) > 0
	for _, each := range answers {
		if each.Code == "unavailable" && each.Epoch == 0 {
			return reply{unheard: each.Message}, true
		}
		isRead = isRead && each.Status != ""
	}
	return reply{answers: answers}, isRead
}

// wasUnsent tells whether an error says that there was no connection, so that nothing was sent.
func wasUnsent(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && (failed.Op == "dial" || failed.Op == "proxyconnect")
}
