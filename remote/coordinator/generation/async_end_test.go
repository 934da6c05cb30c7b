package generation_test

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/remote/coordinator/generation"
)

func (w *asyncWorld) undone() (text string) {
	for _, k := range w.tasks {
		if !k.done {
			text += fmt.Sprintf("%v of %+v; ", k.records, k.holder)
		}
	}
	for _, p := range w.seats {
		text += fmt.Sprintf("%+v; ", *p)
	}
	return text
}

// atTheEnd checks what has become of the job, and of every record.
func (w *asyncWorld) atTheEnd(away map[*process]bool) {
	if w.failed != nil {
		return
	}
	if !w.ended {
		w.mustMiss(away)
		return
	}
	for _, k := range w.tasks {
		if !k.done {
			w.fail("it has ended without %v", k.records)
		}
	}
	records := len(w.servers[0].ledger)
	for i, s := range w.servers {
		applied := 0
		for record := range w.servers[0].ledger {
			if s.applied[record] == 0 {
				w.fail("server %d has never applied record %d", i, record)
			}
			applied += s.applied[record]
		}
		if applied > records+w.losses {
			w.fail("server %d has applied %d updates of %d records after %d losses", i, applied, records, w.losses)
		}
	}
}

// mustMiss checks that a job which has not ended waits for one who does not come, is not done, and is not needed by anybody who lives.
func (w *asyncWorld) mustMiss(away map[*process]bool) {
	wait, _ := w.machine.Wait()
	for _, p := range w.seats {
		missed := away[p] && w.machine.Generation().Position(p.rank) >= 0 && !w.machine.Left(p.rank)
		if !away[p] && !p.left && !p.over || missed && !slices.Contains(wait.By, fmt.Sprintf("trainer %d", p.rank)) {
			w.fail("%+v is not done in phase %v of %+v, which waits for %+v; %s", *p, w.machine.Now(), w.machine.Generation(), wait, w.undone())
		}
	}
	done := true
	for _, m := range w.machine.Generation().Members {
		done = done && slices.ContainsFunc(w.servers, func(s *asyncServer) bool { return s.members[m.Rank] != nil && s.members[m.Rank].complete })
	}
	w.now = w.now.Add(2 * w.policy.StartDeadline)
	if w.step(generation.Tick{}); done || w.failed == nil {
		w.fail("it waits for %+v, and all have done their work: %v", wait, done)
	}
}
