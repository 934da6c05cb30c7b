package edlcmd

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/view"
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
	text := view.ReadRounds(trainers, servers)
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
		name := view.RoleName(r.Role, r.Index)
		if r.Rounds == nil {
			fmt.Fprintf(t, "%s\tnone reported\n", name)
			continue
		}
		fmt.Fprintf(t, "%s\t%d-%d\t%s\t%s", name, r.Rounds.First, r.Rounds.Last, millis(r.Rounds.Median), millis(r.Rounds.Worst))
		if len(roles[at].Rounds.Transports) > 0 {
			fmt.Fprint(t, "\t", transportsOf(r.Rounds))
		}
		total := view.Total(r.Rounds)
		for _, p := range r.Rounds.Phases {
			fmt.Fprintf(t, "\t%s %s/%s", view.Share(p.Total, total), millis(p.Median), millis(p.Worst))
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
