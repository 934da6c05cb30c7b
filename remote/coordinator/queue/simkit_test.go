package queue_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edl-go/edl/remote/coordinator/queue"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run this history of a simulation only, and tell it")
	histories = flag.Int("histories", 12000,
		"how many histories the simulation of async queues runs; that of sync queues runs a third as many, and -short an eighth")
)

// simulate runs many histories, one for each seed, and checks that it has seen the kinds of event that matter.
func simulate(t *testing.T, n int, run func(seed uint64, tell bool) (seen map[string]int, err error), kinds ...string) {
	if *seedFlag != 0 {
		if _, err := run(*seedFlag, true); err != nil {
			t.Fatal(err)
		}
		return
	}
	if testing.Short() {
		n /= 8
	}
	const workers = 4
	var group sync.WaitGroup
	var mu sync.Mutex
	total := map[string]int{}
	for w := range workers {
		group.Go(func() {
			for seed := uint64(w + 1); seed <= uint64(n) && !t.Failed(); seed += workers {
				seen, err := run(seed, false)
				if err != nil {
					t.Errorf("history %d: %v\nto see it: go test -run '^%s$' ./remote/coordinator/queue -seed %d", seed, err, t.Name(), seed)
				}
				mu.Lock()
				for k, n := range seen {
					total[k] += n
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	t.Log(total)
	for _, k := range kinds {
		if total[k] <= n/1000 && !t.Failed() {
			t.Errorf("%q was seen %d times: the simulation does not show much about it", k, total[k])
		}
	}
}

// chaos is what the histories of all simulations have: chance, a clock, and what has been seen.
type chaos struct {
	random *rand.Rand
	tell   bool
	seen   map[string]int
	now    time.Duration
	calm   bool // nothing bad happens any more: everything must come to its end
	err    error
}

func newChaos(seed uint64, tell bool) chaos {
	return chaos{random: rand.New(rand.NewPCG(seed, 7)), tell: tell, seen: map[string]int{}}
}

// chance reports true once in n times, and never when all is calm.
func (s *chaos) chance(n int, what string) bool {
	if s.calm || s.random.IntN(n) > 0 {
		return false
	}
	s.note("%s", what)
	return true
}

func (s *chaos) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.seen[text]++
	if s.tell {
		fmt.Printf("%8v %s\n", s.now, text)
	}
}

// prefix is what becomes durable of changes: all of them, unless they are in several transactions and the coordinator crashes between two.
func (s *chaos) prefix(changes []queue.Change) []queue.Change {
	if len(changes) < 2 || !s.chance(30, "crash between commits") {
		return changes
	}
	return changes[:1+s.random.IntN(len(changes)-1)]
}

// say is for readers of a history only.
func (s *chaos) say(format string, args ...any) {
	if s.tell {
		fmt.Printf("%8v %s\n", s.now, fmt.Sprintf(format, args...))
	}
}

func (s *chaos) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

// lines joins what is left of a failed history's state.
func lines(m store) string {
	var out []string
	for k, v := range m {
		text, _ := queue.Describe(k, v)
		out = append(out, k+": "+text)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// odds say how often a commit goes wrong: once in so many.
type odds struct{ crash, fail int }

// commit makes changes durable, or the first of them, and tells durable which. It reports whether the coordinator may answer, and whether it ends:
// it has crashed, or has lost its lock. When neither holds the store did not answer, and nothing has changed.
func (c *chaos) commit(to store, o odds, lostLock bool, changes []queue.Change, durable func([]queue.Change)) (answers, ends bool) {
	switch {
	case len(changes) == 0:
		return true, false
	case c.chance(o.crash, "crash before commit"):
		return false, true
	case lostLock:
		c.note("commit without the lock refused")
		return false, true
	case c.chance(o.fail, "commit failed"):
		return false, false
	}
	part := c.prefix(changes)
	to.commit(part)
	durable(part)
	ends = len(part) < len(changes) || c.chance(o.crash, "crash after commit")
	return !ends, ends
}
