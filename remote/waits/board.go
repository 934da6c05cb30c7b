package waits

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/job"
)

// A Board lists what a process waits for now. The zero Board is ready, and a nil one keeps nothing. All methods may be called concurrently.
type Board struct {
	mu      sync.Mutex
	entries map[*Entry]struct{}
	count   uint64 // of entries so far
}

// An Entry is a wait on a Board.
type Entry struct {
	board *Board
	wait  Wait // guarded by board.mu
}

// Begin enters a wait, until its End. A wait without Since begins now.
func (b *Board) Begin(w Wait) *Entry {
	e := &Entry{board: b, wait: w}
	if b == nil {
		return e
	}
	if w.Since.IsZero() {
		e.wait.Since = time.Now()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entries == nil {
		b.entries = map[*Entry]struct{}{}
	}
	b.count++
	e.wait.order = b.count
	b.entries[e] = struct{}{}
	return e
}

// Update changes the wait, such as its LastError.
func (e *Entry) Update(change func(*Wait)) {
	if e.board == nil {
		return
	}
	e.board.mu.Lock()
	defer e.board.mu.Unlock()
	change(&e.wait)
}

// End takes the wait off the Board. Further calls do nothing.
func (e *Entry) End() {
	if e.board == nil {
		return
	}
	e.board.mu.Lock()
	defer e.board.mu.Unlock()
	delete(e.board.entries, e)
}

// List returns the waits that have lasted at least so long, the oldest first.
func (b *Board) List(lasted time.Duration) []*job.Wait {
	if b == nil {
		return nil
	}
	now := time.Now()
	b.mu.Lock()
	var list []Wait
	for e := range b.entries {
		if !e.wait.Unlisted && now.Sub(e.wait.Since) >= lasted {
			list = append(list, e.wait)
		}
	}
	b.mu.Unlock()
	return messages(list)
}

// Follow calls tell with what List returns whenever that has changed, until ctx ends. It looks once in every period, so it tells no more often than
// that. It returns when ctx has ended; what was told last stays told.
func (b *Board) Follow(ctx context.Context, every, lasted time.Duration, tell func([]*job.Wait)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var last []*job.Wait
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		list := b.List(lasted)
		same := func(a, b *job.Wait) bool { return proto.Equal(a, b) }
		if !slices.EqualFunc(list, last, same) {
			last = list
			tell(list)
		}
	}
}
