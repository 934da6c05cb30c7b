package trainer

import (
	"log/slog"
	"sync"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/wire"
)

// waits are the long waits of a trainer, one for each of those who are waited for: the one that was told first stands for the others until all have
// ended. So they say no more than twice for each of them that they wait, in a time of tellAfter, however many calls are under way. A nil one tells
// nothing.
type waits struct {
	log  *slog.Logger
	mu   sync.Mutex
	list []*longOne
}

type longOne struct {
	of    string
	count int // of waits
	said  *job.Wait
}

func newWaits(log *slog.Logger) *waits {
	if log == nil {
		return nil
	}
	return &waits{log: log}
}

// add tells a wait, whose lock is held, or that it goes on.
func (l *waits) add(w *wait, first bool) {
	if l == nil {
		return
	}
	said := &job.Wait{What: w.what, By: []string{w.of}, Since: timestamppb.New(w.since)}
	if w.err != nil {
		said.LastError = w.err.Error()
	}
	if !w.until.IsZero() {
		said.Until = timestamppb.New(w.until)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, have := range l.list {
		if have.of != w.of {
			continue
		}
		if first {
			have.count++
		}
		if have.said.What == said.What && have.said.LastError != said.LastError {
			have.said = said
			l.tell()
		}
		return
	}
	l.list = append(l.list, &longOne{w.of, 1, said})
	l.tell()
}

// remove ends a wait that was told.
func (l *waits) remove(of string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, have := range l.list {
		if have.of != of {
			continue
		}
		if have.count--; have.count == 0 {
			l.list = append(l.list[:i], l.list[i+1:]...)
			l.tell()
		}
		return
	}
}

// tell writes the line. l.mu is held, so that lines come in order.
func (l *waits) tell() {
	var said []*job.Wait
	for _, one := range l.list {
		said = append(said, one.said)
	}
	l.log.Info(wire.WaitsText(said))
}
