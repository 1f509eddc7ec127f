package rampmeter

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
)

const (
	// maxSettles is how many wait; above it the oldest is dropped. Its permit counts as used at its
	// estimated cost, which is safe.
	maxSettles = 65_536
	// maxMessage is the most bytes of settles in a message, unless one alone has more. A front reads
	// 64 KiB and 1024 settles, of which each has 50 bytes or more.
	maxMessage = 48 * 1024
	// settledEvery is how often it is looked whether everything was taken.
	settledEvery millis = 5
)

// outbox has the settles that no scheduler has taken. What waits while a message is under way
// travels together.
type outbox struct {
	send func(body []byte, end millis) (reply, error)
	log  func(string)

	mutex     sync.Mutex // guards what waits, and is held while isSending changes
	waiting   [][]byte
	isSending atomic.Bool
}

func (o *outbox) push(each settle) {
	text, _ := json.Marshal(each) // Of numbers and texts, which JSON has.
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.waiting = append(o.waiting, text); len(o.waiting) > maxSettles {
		o.waiting = o.waiting[1:]
	}
	if !o.isSending.Swap(true) {
		go o.sendAll()
	}
}

func (o *outbox) sendAll() {
	failures := 0
	for batch := o.next(nil); len(batch) > 0; {
		heard, err := o.send([]byte("["+string(bytes.Join(batch, []byte(",")))+"]"), forever)
		var again [][]byte
		for index, text := range batch {
			if index >= len(heard.answers) || heard.answers[index].Code == "unavailable" {
				again = append(again, text)
			}
		}
		if err != nil {
			o.log("settles are lost: " + err.Error())
			again = nil
		}
		if failures++; len(again) < len(batch) {
			failures = 0
		} else {
			_ = pause(context.Background(), now()+backOff(failures))
		}
		batch = o.next(again)
	}
}

// next has what no scheduler has taken wait again, and takes what travels together. If nothing waits,
// nothing is under way any more.
func (o *outbox) next(again [][]byte) [][]byte {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.waiting = append(again, o.waiting...)
	count, length := 0, 0
	for ; count < len(o.waiting) && (count == 0 || length+len(o.waiting[count]) < maxMessage); count++ {
		length += len(o.waiting[count]) + 1
	}
	batch := o.waiting[:count]
	o.waiting = o.waiting[count:]
	o.isSending.Store(count > 0)
	return batch
}

// settled waits until a scheduler has taken all settles.
func (o *outbox) settled(ctx context.Context) error {
	for o.isSending.Load() {
		if err := pause(ctx, now()+settledEvery); err != nil {
			return err
		}
	}
	return nil
}
