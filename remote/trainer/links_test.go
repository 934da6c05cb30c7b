package trainer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
)

// linksOf are n links without connections, and a server between them that has none. The exchanges are those of their Comm.
func linksOf(n int) (links, *exchanges) {
	c := &Comm{}
	ls := links{nil}
	for server := range n {
		ls = append(ls, &link{comm: c, server: server})
	}
	return ls, &c.exchanges
}

var (
	nothing = func(*link, context.Context) {}
	few     = func(*link) int { return 1 }
)

// Links that answer soon cost a step neither goroutines nor memory, and each is finished once.
func TestLinksThatAnswerSoon(t *testing.T) {
	ls, e := linksOf(4)
	var finished [4]int
	finish := func(l *link, _ context.Context) error { finished[l.server]++; return nil }
	steps := 0
	if n := testing.AllocsPerRun(100, func() {
		steps++
		if err := ls.each(t.Context(), few, nothing, finish); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("a step makes %v allocations", n)
	}
	for server, n := range finished {
		if n != steps {
			t.Errorf("link %d was finished %d times in %d steps", server, n, steps)
		}
	}
	e.end()
}

// A link that fails while another one waits ends that wait, and its error is the one that counts.
func TestFailureEndsOtherLinks(t *testing.T) {
	for failing := range 3 {
		synctest.Test(t, func(t *testing.T) {
			ls, e := linksOf(3)
			began := time.Now()
			err := ls.each(t.Context(), few, nothing, func(l *link, ctx context.Context) error {
				if l.server == failing {
					return fault.E(fault.Superseded)
				}
				<-ctx.Done()
				return fault.E(fault.Canceled, fault.Cause(ctx.Err()))
			})
			if took := time.Since(began); !errors.Is(err, fault.Superseded) || took > patience {
				t.Errorf("link %d fails, and the step after %v with %v", failing, took, err)
			}
			// The links of the next step are not those that have ended.
			if err := ls.each(t.Context(), few, nothing, func(_ *link, ctx context.Context) error { return ctx.Err() }); err != nil {
				t.Error(err)
			}
			e.end()
		})
	}
}

// Links that wait for each other's servers all come to their end: after patience where few bytes move, else at once.
func TestLinksThatWaitForEachOther(t *testing.T) {
	for bytes, limit := range map[int]time.Duration{1: patience, inline: 0} {
		synctest.Test(t, func(t *testing.T) {
			ls, e := linksOf(3)
			for range 3 { // a timer of one step says nothing in the next
				var all sync.WaitGroup
				all.Add(3)
				began := time.Now()
				err := ls.each(t.Context(), func(*link) int { return bytes }, nothing, func(*link, context.Context) error {
					all.Done()
					all.Wait()
					return nil
				})
				if took := time.Since(began); err != nil || took != limit {
					t.Errorf("links of %d bytes end after %v with %v, want after %v", bytes, took, err, limit)
				}
			}
			e.end()
		})
	}
}

// The end of a step's context ends all waits, and the connections of the next step are bound to that step's.
func TestEndOfContextEndsLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls, e := linksOf(2)
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began := time.Now()
			err := ls.each(ctx, few, nothing, func(_ *link, ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
				t.Errorf("after %v: %v", took, err)
			}
			cancel()
		}
		e.end()
	})
}

// A call that fails, and the end of a generation, end what the links of the step wait for.
func TestFailedCallsEndLinks(t *testing.T) {
	for name, end := range map[string]func(c *Comm){
		"a failed call": func(c *Comm) {
			c.sends.start(t.Context(), c.slots, func(context.Context) error { return fault.E(fault.Superseded) })
			_ = c.sends.end()
		},
		"abort": (*Comm).Abort,
	} {
		c := &Comm{}
		c.init()
		ctx := c.exchanges.context(t.Context())
		if same := c.exchanges.context(t.Context()); same != ctx {
			t.Error("another context for the next step")
		}
		other, cancel := context.WithCancel(t.Context())
		defer cancel()
		if of := c.exchanges.context(other); ctx.Err() == nil {
			t.Error("a context of an earlier caller")
		} else if cancel(); of.Err() == nil {
			t.Error("the end of the caller's context does not end the links")
		}
		ctx = c.exchanges.context(t.Context())
		if end(c); ctx.Err() == nil {
			t.Errorf("%s does not end the links", name)
		}
		c.Abort()
	}
}
