package web

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/view"
	"github.com/edl-go/edl/remote/wire"
)

// A roleRow is one row of the step stream: how a role is, and where the time of its last rounds went.
type roleRow struct {
	Name   string `json:"name"`
	Place  int    `json:"place"` // among the roles of the job
	Kind   string `json:"kind"`
	Index  uint32 `json:"index"`
	State  string `json:"state"`
	Starts int32  `json:"starts"`
	Pid    int32  `json:"pid,omitempty"`
	Node   string `json:"node,omitempty"`
	Last   string `json:"last,omitempty"`  // how it ended last
	Waits  string `json:"waits,omitempty"` // for what it waits
	// Held says who waits for this role, if the job does not go on because of it.
	Held   string  `json:"held,omitempty"`
	Shares []int   `json:"shares,omitempty"` // of each phase in the time of the last rounds, in thousandths
	Median float64 `json:"median,omitempty"` // milliseconds of a round
	Worst  float64 `json:"worst,omitempty"`
	Round  uint64  `json:"round,omitempty"` // the last that is counted
}

// phases are the names of the phases of a round, in order.
type phases struct {
	Trainer []string `json:"trainer"`
	Pserver []string `json:"pserver"`
}

func phasesOf(d *rpc.JobDetails) (p phases) {
	p = phases{Trainer: []string{}, Pserver: []string{}}
	for _, t := range d.Times {
		of := &p.Pserver
		if t.Role == job.Role_TRAINER {
			of = &p.Trainer
		}
		if len(*of) > 0 {
			continue
		}
		for _, phase := range t.Rounds.GetPhases() {
			*of = append(*of, phase.Name)
		}
	}
	return p
}

// reading says in words what the times of rounds tell.
func reading(d *rpc.JobDetails) string {
	var trainers, servers []*rpc.RoleTimes
	for _, t := range d.Times {
		if t.Role == job.Role_TRAINER {
			trainers = append(trainers, t)
		} else {
			servers = append(servers, t)
		}
	}
	return strings.TrimSpace(view.ReadRounds(trainers, servers))
}

// roles lists the roles of the job, in order.
func (t *tracked) roles(held held, names phases) []roleRow {
	times := map[cluster.Member]*job.RoundTimes{}
	for _, m := range t.details.GetTimes() {
		times[cluster.Member{Role: m.Role, Index: int(m.Index)}] = m.Rounds
	}
	all := make([]roleRow, 0, len(t.status.Roles))
	for _, r := range t.status.Roles {
		m := cluster.Member{Role: r.Role, Index: int(r.Index)}
		row := roleRow{Name: view.RoleName(r.Role, r.Index), Place: len(all), Kind: strings.ToLower(r.Role.String()), Index: r.Index, State: strings.ToLower(r.State.String()), Starts: r.Starts,
			Pid: r.Pid, Node: r.Node, Last: failure(r.Failure), Waits: held.waiting[m.String()], Held: held.by[m.String()]}
		if rounds := times[m]; rounds != nil && rounds.Rounds > 0 {
			row.Shares, row.Round = shares(rounds, names, r.Role), rounds.Last
			row.Median, row.Worst = millis(rounds.Median), millis(rounds.Worst)
		}
		all = append(all, row)
	}
	return all
}

// shares are the parts of the phases in a round, in thousandths, in the order of their names.
func shares(rounds *job.RoundTimes, names phases, role job.Role) []int {
	order := names.Pserver
	if role == job.Role_TRAINER {
		order = names.Trainer
	}
	total := max(view.Total(rounds), 1)
	out := make([]int, len(order))
	for _, p := range rounds.Phases {
		if i := slices.Index(order, p.Name); i >= 0 {
			out[i] = int(math.Round(1000 * float64(p.Total) / float64(total)))
		}
	}
	return out
}

func millis(ns int64) float64 { return rounded(float64(ns) / float64(time.Millisecond)) }

// failure is an error in one line.
func failure(f *job.Failure) string {
	if err := wire.FaultOf(f); err != nil {
		return strings.Join(strings.Fields(err.Error()), " ")
	}
	return ""
}

// held is whether a job goes on, and who holds it up.
type held struct {
	stalled bool
	since   time.Time         // when the wait began that is the cause; zero: not known
	text    string            // one sentence, which stays the same as long as the cause does; empty: the job goes on, or has ended well
	waits   []string          // all waits as sentences, the cause first
	waiting map[string]string // what each member waits for
	by      map[string]string // who waits for each member, where the job is stalled
}

// stallTime is how long a job makes no step, or the cause of its waits lasts, until it is called stalled, unless its rounds take longer.
const stallTime = 3 * time.Second

// held finds out whether the job goes on. Each round waits for its trainers for a moment, so only what lasts three times as long as the worst round counts.
func (t *tracked) held(now time.Time) held {
	s, d := t.status, t.details
	h := held{waits: []string{}, waiting: map[string]string{}, by: map[string]string{}}
	switch {
	case view.Ended(s):
		h.text = failure(s.Failure)
		if s.Resumable {
			h.text = strings.TrimSpace(fmt.Sprintf("%s (\"edl jobs resume %s\" goes on with it)", h.text, s.Job))
		}
		return h
	case s.State == job.State_WAITING:
		h.text = s.Waiting
		return h
	case s.Waiting != "": // it has trained all files that have come: nothing holds it up
		h.text = "waits for " + s.Waiting
	}
	if d == nil {
		return h
	}
	patience := stallTime
	for _, m := range d.Times {
		patience = max(patience, 3*time.Duration(m.Rounds.GetWorst()))
	}
	lasts := func(w *job.Wait) bool { return w.Since == nil || now.Sub(w.Since.AsTime()) > patience }
	for _, w := range d.Waits {
		if w.Since == nil || now.Sub(w.Since.AsTime()) > stallTime { // what a server said up to two seconds ago may be over
			h.waits = append(h.waits, sentence(w, now))
			h.waiting[w.Who] = w.What
		}
	}
	switch {
	case s.Waiting != "":
	case s.Paused != "":
		h.stalled, h.text = true, s.Paused
	case view.AllWait(s, d.Waits, now):
		h.stalled, h.text = true, "all of its trainers wait"
	case len(d.Waits) > 0 && s.State == job.State_RUNNING && lasts(d.Waits[0]) && now.Sub(t.progressed) > min(patience, stallTime):
		h.stalled, h.text = true, "no step"
	}
	if !h.stalled {
		return h
	}
	if len(d.Waits) > 0 {
		cause := d.Waits[0]
		if s.Paused == "" { // without the times in it, which change all the time
			h.text += ": " + sentence(&job.Wait{Who: cause.Who, What: cause.What, By: cause.By}, now)
		}
		if cause.Since != nil {
			h.since = cause.Since.AsTime()
		}
	}
	for _, w := range d.Waits {
		for _, name := range w.By {
			if h.by[name] == "" && !waitsToo(d.Waits, name) {
				h.by[name] = fmt.Sprintf("%s waits for it", w.Who)
			}
		}
	}
	return h
}

// sentence is a wait in one line.
func sentence(w *job.Wait, now time.Time) string {
	return strings.ReplaceAll(strings.TrimSpace(view.Wait(w, now)), "\n  ", "; ")
}

// waitsToo reports whether somebody who is waited for waits itself: then it is not the cause.
func waitsToo(waits []*job.Wait, name string) bool {
	return slices.ContainsFunc(waits, func(w *job.Wait) bool { return w.Who == name && len(w.By) > 0 })
}
