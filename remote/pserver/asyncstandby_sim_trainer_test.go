package pserver_test

import (
	"reflect"

	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/pserver"
)

// act lets a trainer do what comes next at one of the servers.
func (t *asyncTrainer) act(j *asyncJob) {
	if t.acknowledged == asyncSteps {
		return
	}
	from := pserver.Sender{Rank: t.rank, Generation: t.since, Round: t.step}
	i := j.rand.IntN(len(j.servers))
	s := j.servers[i]
	switch {
	case len(t.sent[i]) < len(j.names):
		name := j.names[j.rand.IntN(len(j.names))]
		e := pserver.Received{Sender: from, Variable: name}
		if s.receive(j, e, t.process) {
			t.sent[i][name] = true
			j.past = append(j.past, pastMessage{i, t.process, e})
		}
	case !t.answered[i]:
		f, err := s.machine.Step(0, pserver.Read{Sender: from})
		if err != nil {
			j.Errorf("server %d refuses to read: %v", i, err)
		}
		t.answered[i] = err == nil && !f.Hold
	case !t.all():
	case !t.declared:
		t.declare(j, from)
	case j.servers[0].has(t.declaredTo):
		t.acknowledged++
		t.step++
		t.begin(j)
	}
}

func (t *asyncTrainer) all() bool {
	for _, ok := range t.answered {
		if !ok {
			return false
		}
	}
	return true
}

// record numbers the steps of all processes.
func record(process int, step id.Round) int64 { return int64(process)*1000 + int64(step) }

// declare enters a step in the ledger.
func (t *asyncTrainer) declare(j *asyncJob, from pserver.Sender) {
	s, r := j.servers[0], record(t.process, t.step)
	e := pserver.Declared{Sender: from, Variables: len(j.names), Declaration: pserver.Declaration{Rank: t.rank, Rows: 1, Records: []ranges.Range{{From: r, To: r + 1}}}}
	f, err := s.machine.Step(0, e)
	if err != nil || f.Hold {
		j.Errorf("server 0 does not take the end of step %d of process %d: %v", t.step, t.process, err)
		return
	}
	t.declared = true
	if f.Ignore {
		t.declaredTo = s.state() // comes behind all that the standby is told
		return
	}
	enter := func(b *asyncServer) { b.ledger[r]++ }
	t.declaredTo = s.tell(pserver.Entered{Sender: from, Declaration: e.Declaration}, enter)
	enter(s)
}

// check compares what servers have with the ledger, and standbys with their servers.
func (j *asyncJob) check() {
	ledger := j.servers[0].ledger
	outside, killed, acknowledged := map[int]map[id.Round]bool{}, 0, 0
	for i, s := range j.servers {
		for what, n := range s.applied {
			if n != 1 {
				j.Errorf("server %d has applied %+v %d times", i, what, n)
			}
			if ledger[record(what.process, what.step)] == 0 {
				if outside[what.process] == nil {
					outside[what.process] = map[id.Round]bool{}
				}
				outside[what.process][what.step] = true
			}
		}
		for r, n := range ledger {
			for _, name := range append([]string{""}, j.names...) {
				if what := (share{int(r / 1000), id.Round(r % 1000), name}); n != 1 || s.applied[what] != 1 {
					j.Errorf("the ledger has a step %d times, and server %d %+v %d times", n, i, what, s.applied[what])
				}
			}
		}
		if f := s.follower; f != nil && !f.ended && f.started {
			s.deliver(len(f.stream))
			if !reflect.DeepEqual(f.content, s.content) {
				j.Errorf("the standby of server %d has\n%v, and the server\n%v", i, f.content, s.content)
			}
		}
	}
	for _, t := range j.trainers {
		killed, acknowledged = killed+t.killed, acknowledged+t.acknowledged
	}
	steps := 0
	for process, of := range outside {
		if steps += len(of); len(of) > 1 {
			j.Errorf("process %d has %d steps that are not in the ledger", process, len(of))
		}
	}
	if steps > killed || len(ledger) < acknowledged {
		j.Errorf("%d steps are not in the ledger after %d losses; it has %d, and trainers have heard of %d", steps, killed, len(ledger), acknowledged)
	}
}
