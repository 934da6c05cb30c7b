package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/internal/eventlog"
)

// An entry that comes after a pause is sent at once. Those that follow go together, and at the end of the log none waits.
func TestReadBatches(t *testing.T) {
	const every = 20 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		l := eventlog.New[string](100)
		began, got := time.Now(), ""
		done := make(chan error, 1)
		go func() {
			done <- l.ReadBatches(t.Context(), 0, every, func(number uint64, entries []string) error {
				got += fmt.Sprintf("%dms %d%v, ", time.Since(began).Milliseconds(), number, entries)
				return nil
			})
		}()
		for _, s := range []string{"a", "b", "c"} {
			synctest.Wait()
			l.Add(s)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(97 * time.Millisecond)
		l.Add("d", "e")
		synctest.Wait()
		l.Add("f")
		time.Sleep(time.Millisecond)
		l.End()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if want := "0ms 0[a], 20ms 1[b c], 100ms 3[d e], 101ms 5[f], "; got != want {
			t.Errorf("read %q, want %q", got, want)
		}
	})
}

// A batch is bounded by its entries and by their bytes, but for a single entry that is larger.
func TestBatchesAreBounded(t *testing.T) {
	sizes := func(l *eventlog.Log[int]) (n []int) {
		l.End()
		next := uint64(0)
		if err := l.ReadBatches(t.Context(), 0, time.Hour, func(number uint64, entries []int) error {
			if number != next {
				t.Errorf("a batch begins with %d, want %d", number, next)
			}
			next += uint64(len(entries))
			n = append(n, len(entries))
			return nil
		}); err != nil {
			t.Error(err)
		}
		return n
	}
	many := eventlog.New[int](1 << 20)
	for i := range 2500 {
		many.Add(i)
	}
	if got := fmt.Sprint(sizes(many)); got != "[1024 1024 452]" {
		t.Errorf("many entries: batches of %s", got)
	}
	large := eventlog.NewSized(100, 1<<30, func(n int) int { return n })
	large.Add(600<<10, 300<<10, 300<<10, 5<<20, 1, 1)
	if got := fmt.Sprint(sizes(large)); got != "[2 1 1 2]" {
		t.Errorf("large entries: batches of %s", got)
	}
}

func TestReadBatchesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := eventlog.New[string](4)
		l.Add("a")
		ctx, cancel := context.WithCancel(t.Context())
		if err := l.ReadBatches(ctx, 0, time.Hour, func(uint64, []string) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		broken := errors.New("broken")
		if err := l.ReadBatches(t.Context(), 0, time.Hour, func(uint64, []string) error { return broken }); err != broken {
			t.Error(err)
		}
	})
}
