package edlcmd

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// writeRounds writes where the time of the last rounds of each role went: one table for trainers, one for pservers, and what to read in them.
func writeRounds(w io.Writer, d *rpc.JobDetails) error {
	var trainers, servers []*rpc.RoleTimes
	for _, t := range d.Times {
		if t.Role == job.Role_TRAINER {
			trainers = append(trainers, t)
		} else {
			servers = append(servers, t)
		}
	}
	fmt.Fprintln(w)
	if !slices.ContainsFunc(d.Times, func(t *rpc.RoleTimes) bool { return t.Rounds != nil }) {
		_, err := fmt.Fprintln(w, "No role has reported a round yet.")
		return err
	}
	fmt.Fprintln(w, "Where the time of the last rounds went. Each phase: share of the time, median/worst in ms.")
	for _, roles := range [][]*rpc.RoleTimes{trainers, servers} {
		fmt.Fprintln(w)
		if err := writePhases(w, roles, d.Spec.GetMode()); err != nil {
			return err
		}
	}
	text := readRounds(trainers, servers)
	if text != "" {
		text = "\n" + text
	}
	_, err := fmt.Fprint(w, text)
	return err
}

// writePhases writes a table with a row for each role and a column for each phase.
func writePhases(w io.Writer, roles []*rpc.RoleTimes, mode job.Mode) error {
	at := slices.IndexFunc(roles, func(t *rpc.RoleTimes) bool { return t.Rounds != nil })
	if at < 0 {
		if len(roles) > 0 && roles[0].Role == job.Role_PSERVER && mode == job.Mode_ASYNC {
			_, err := fmt.Fprintln(w, "In async mode pservers apply each contribution by itself: they have no rounds.")
			return err
		}
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "ROLE\tROUNDS\tMEDIAN\tWORST")
	if len(roles[at].Rounds.Transports) > 0 {
		fmt.Fprint(t, "\tTRANSPORT")
	}
	for _, p := range roles[at].Rounds.Phases {
		fmt.Fprint(t, "\t", strings.ToUpper(p.Name))
	}
	fmt.Fprintln(t)
	for _, r := range roles {
		name := roleName(&job.RoleStatus{Role: r.Role, Index: r.Index})
		if r.Rounds == nil {
			fmt.Fprintf(t, "%s\tnone reported\n", name)
			continue
		}
		fmt.Fprintf(t, "%s\t%d-%d\t%s\t%s", name, r.Rounds.First, r.Rounds.Last, millis(r.Rounds.Median), millis(r.Rounds.Worst))
		if len(roles[at].Rounds.Transports) > 0 {
			fmt.Fprint(t, "\t", transportsOf(r.Rounds))
		}
		total := totalOf(r.Rounds)
		for _, p := range r.Rounds.Phases {
			fmt.Fprintf(t, "\t%s %s/%s", share(p.Total, total), millis(p.Median), millis(p.Worst))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// transportsOf names the transports of a trainer, with the number of its peers where there are several.
func transportsOf(m *job.RoundTimes) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(m.Transports)) {
		if len(m.Transports) > 1 {
			name = fmt.Sprintf("%s (%d)", name, m.Transports[name])
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// meanings say what a trainer does in a phase.
var meanings = map[string]string{
	"read": "the next batch is not here yet", "compute": "the program runs", "send": "the pservers do not have all gradients yet",
	"wait": "other trainers are not ready, or the pservers compute", "receive": "the parameters arrive", "other": "reports, and joining of slices",
}

// readRounds says in sentences what the tables show: the phase that takes most of the trainers' time, and the trainer that the others wait for.
func readRounds(trainers, servers []*rpc.RoleTimes) string {
	var b strings.Builder
	var names []string
	totals, all := map[string]int64{}, int64(0)
	for _, t := range trainers {
		for _, p := range t.Rounds.GetPhases() {
			if _, ok := totals[p.Name]; !ok {
				names = append(names, p.Name)
			}
			totals[p.Name] += p.Total
			all += p.Total
		}
	}
	if all > 0 {
		most := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(totals[a], totals[b]) })
		fmt.Fprintf(&b, "Trainers spend most of their time in %s (%s): %s.\n", most, share(totals[most], all), meanings[most])
	}
	b.WriteString(slowest(len(trainers), servers))
	return b.String()
}

// slowest says which trainer is the last to declare more often than chance explains: half as often again as its part of the rounds.
func slowest(trainers int, servers []*rpc.RoleTimes) string {
	at := slices.IndexFunc(servers, func(s *rpc.RoleTimes) bool { return len(s.Rounds.GetLastDeclared()) > 0 })
	if at < 0 || trainers < 2 {
		return ""
	}
	rounds, counts := servers[at].Rounds.Rounds, servers[at].Rounds.LastDeclared
	rank := slices.MaxFunc(slices.Sorted(maps.Keys(counts)), func(a, b uint32) int { return cmp.Compare(counts[a], counts[b]) })
	if 2*int(counts[rank])*trainers < 3*int(rounds) {
		return fmt.Sprintf("No trainer is much slower than the others: trainer-%d was the last to declare in %d of %d rounds.\n", rank, counts[rank],
			rounds)
	}
	return fmt.Sprintf("The slowest trainer is trainer-%d: it was the last to declare in %d of %d rounds.\n", rank, counts[rank], rounds)
}

func totalOf(m *job.RoundTimes) (sum int64) {
	for _, p := range m.Phases {
		sum += p.Total
	}
	return sum
}

// share writes a part of a whole in percent.
func share(part, whole int64) string {
	return fmt.Sprintf("%.0f%%", 100*float64(part)/float64(max(whole, 1)))
}

// millis writes nanoseconds as milliseconds, with three digits or so.
func millis(ns int64) string {
	ms := float64(ns) / float64(time.Millisecond)
	switch {
	case ms >= 100:
		return fmt.Sprintf("%.0f", ms)
	case ms >= 10:
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.2f", ms)
}
