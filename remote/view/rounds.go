package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// meanings say what a trainer does in a phase.
var meanings = map[string]string{
	"read": "the next batch is not here yet", "compute": "the program runs", "send": "the pservers do not have all gradients yet",
	"wait": "other trainers are not ready, or the pservers compute", "receive": "the parameters arrive", "other": "reports, and joining of slices",
}

// ReadRounds says in sentences what the tables show: the phase that takes most of the trainers' time, and the trainer that the others wait for.
func ReadRounds(trainers, servers []*rpc.RoleTimes) string {
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
		fmt.Fprintf(&b, "Trainers spend most of their time in %s (%s): %s.\n", most, Share(totals[most], all), meanings[most])
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

// Total is how long all phases took together.
func Total(m *job.RoundTimes) (sum int64) {
	for _, p := range m.Phases {
		sum += p.Total
	}
	return sum
}

// Share writes a part of a whole in percent.
func Share(part, whole int64) string {
	return fmt.Sprintf("%.0f%%", 100*float64(part)/float64(max(whole, 1)))
}
