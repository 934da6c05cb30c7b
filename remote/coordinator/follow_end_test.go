package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
)

// heard keeps the lines of a log.
type heard struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines.Write(b)
}

func (h *heard) count(what string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Count(h.lines.String(), what)
}

// A file that comes after the end of its dataset is left out, and named: by this coordinator, and by the next.
func TestFileAfterTheEnd(t *testing.T) {
	h, dirs := following(t, "d")
	log := &heard{}
	h.cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	s := h.start()
	s.joinAll(0, 0)
	writeFile(t, dirs["d"], "part-0", 2)
	writeFile(t, dirs["d"], dataset.EndMarker, 0)
	s.queue("d", closed)
	for lives := range 2 {
		writeFile(t, dirs["d"], "part-1", 2)
		for log.count("part-1") <= lives {
			s.queue("d", closed)
		}
		s.queue("d", func(q *rpc.QueueStatus) bool {
			if q.Records != 2 || q.Following {
				t.Errorf("the queue is %v", q)
			}
			return true
		})
		s.stop()
		<-s.ended
		s = h.start()
	}
	task := s.next("d", 0, true).Task
	if r := s.next("d", 1, true, task); !r.EndOfData {
		t.Error(r)
	}
}

// A coordinator crashes when it has seen the end, but has not written all of what was there, or not that it was the end: the next one finds the same
// files.
func TestCrashBeforeTheEndIsDurable(t *testing.T) {
	for name, refused := range map[string]func([]cluster.Change) bool{
		"the files": func(changes []cluster.Change) bool { return len(changes) > 1 },
		"the end":   func(changes []cluster.Change) bool { return len(changes) == 1 },
	} {
		t.Run(name, func(t *testing.T) {
			h, dirs := following(t, "d")
			s := h.start()
			s.joinAll(0, 0)
			tried := make(chan struct{})
			var once sync.Once
			h.store.failing(func(changes []cluster.Change) error {
				for _, c := range changes {
					if strings.HasPrefix(c.Key, "data/") && refused(changes) {
						once.Do(func() { close(tried) })
						return fault.New(fault.Unavailable, "no store")
					}
				}
				return nil
			})
			writeFile(t, dirs["d"], "part-0", 2)
			writeFile(t, dirs["d"], "part-1", 2)
			writeFile(t, dirs["d"], dataset.EndMarker, 0)
			<-tried
			s.stop()
			if err := <-s.ended; !errors.Is(err, fault.Canceled) {
				t.Error(err)
			}
			h.store.failing(nil)
			s = h.start()
			s.queue("d", func(q *rpc.QueueStatus) bool { return closed(q) && q.Records == 4 })
			first := s.next("d", 0, true).Task
			second := s.next("d", 1, true, first).Task
			if r := s.next("d", 2, true, second); !r.EndOfData {
				t.Error(r)
			}
			if err := s.leave(context.Background(), 0); err != nil {
				t.Error(err)
			}
			if err := <-s.ended; err != nil {
				t.Error(err)
			}
		})
	}
}
