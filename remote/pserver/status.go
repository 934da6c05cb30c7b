package pserver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// sameJob refuses questions about another job.
func (s *Server) sameJob(id string) error {
	if id != s.cfg.Identity.Job {
		return fault.E(fault.Foreign, fault.Got("job "+fault.Quote(id)), fault.Want("job "+s.cfg.Identity.Job))
	}
	return nil
}

// Status tells what the server waits for and what it refused.
func (s *Server) Status(_ context.Context, m *rpc.StatusRequest) (*rpc.StatusResponse, error) {
	if err := s.sameJob(m.Job); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &rpc.StatusResponse{Refused: maps.Clone(s.refused), Bytes: s.bytes, Round: s.applied, Waits: s.waitMessages()}
	if s.machine != nil { // not before the program serves
		r.Generation = s.machine.Generation()
	}
	if s.rounds != nil {
		r.Round = s.rounds.Round()
	}
	return r, nil
}

// waitMessages tells each thing that is waited for once: first what the server itself waits for, then what calls do, the oldest first. s.mu is held.
func (s *Server) waitMessages() []*job.Wait {
	calls := slices.SortedFunc(maps.Values(s.waits), func(a, b wait) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.what, b.what)) })
	all := calls
	if s.own.timer != nil {
		all = append([]wait{s.own.wait}, calls...)
	}
	told := map[string]bool{}
	var list []*job.Wait
	for _, w := range all {
		if told[w.what] {
			continue
		}
		told[w.what] = true
		m := &job.Wait{Who: s.name(), What: w.what, By: w.names(), Since: timestamppb.New(w.since), LastError: s.lastHeard(w.ranks)}
		if w.limit > 0 {
			m.Until = timestamppb.New(w.since.Add(w.limit))
		}
		list = append(list, m)
	}
	return list
}

// lastHeard says when ranks were last heard of. s.mu is held.
func (s *Server) lastHeard(ranks []int) string {
	if len(ranks) == 1 {
		return s.heard(ranks[0])
	}
	var list []string
	for _, rank := range ranks {
		list = append(list, fmt.Sprintf("trainer %d %s", rank, s.heard(rank)))
	}
	return strings.Join(list, ", ")
}

// heard says when a rank was last heard of. s.mu is held.
func (s *Server) heard(rank int) string {
	if t := s.seen[rank]; !t.IsZero() {
		return fmt.Sprintf("last heard of %v ago", time.Since(t).Round(time.Millisecond))
	}
	return "never heard of"
}
