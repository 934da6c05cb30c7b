package coordinator_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/internal/pstest"
)

// Trainers of one host are told their group, servers are told who leads, and people see it. Without merge_hosts a host means nothing, and neither does
// one without an address or with a name that is too long.
func TestGroupsOfHosts(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, c := range map[string]struct {
		merge bool
		hosts []string
		want  string // of each trainer: its group, the address of the leader, who contributes for it at servers
	}{
		"two hosts":     {true, []string{"a", "b", "a"}, "[0 2] a:0 0, [] - 1, [0 2] a:0 0"},
		"not asked for": {false, []string{"a", "a", "a"}, "[] - 0, [] - 1, [] - 2"},
		"too long":      {true, []string{long, "b", long}, "[] - 0, [] - 1, [] - 2"},
		"no address":    {true, []string{"a", "none", "none"}, "[] - 0, [] - 1, [] - 2"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(3)
			cfg.MergeHosts = c.merge
			h := newHome(t, cfg)
			h.cfg.Live = nil
			s, ended := coordinator.New(h.cfg), make(chan error, 1)
			go func() { ended <- s.Run(t.Context(), h.store.lead()) }()
			answers := make([]*rpc.JoinResponse, 3)
			err := pstest.Parallel(3, func(rank int) (err error) {
				m := &rpc.JoinRequest{Id: idOf(0, uint32(rank), 0), Incarnation: 1, Host: c.hosts[rank]}
				if m.Host != "none" {
					m.Address = fmt.Sprintf("%.1s:%d", m.Host, rank)
				}
				answers[rank], err = s.Join(t.Context(), m)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			h.servers[0].mu.Lock()
			members := h.servers[0].resumed.Members
			h.servers[0].mu.Unlock()
			q, err := s.ShowQueues(t.Context(), &rpc.QueuesRequest{Job: pstest.Identity.Job})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for rank, r := range answers {
				leader, address := uint32(rank), "-"
				if members[rank].Leader != nil {
					leader = *members[rank].Leader
				}
				if r.LeaderAddress != "" {
					address = r.LeaderAddress
				}
				got = append(got, fmt.Sprintf("%v %s %d", r.Group, address, leader))
				if c.merge && q.Leaders[rank] != leader || !c.merge && len(q.Leaders) > 0 {
					t.Errorf("people see the leaders %v", q.Leaders)
				}
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
			err = pstest.Parallel(3, func(rank int) error {
				_, err := s.Leave(t.Context(), &rpc.LeaveRequest{Id: firstID(uint32(rank), 0)})
				return err
			})
			if err := errors.Join(err, <-ended); err != nil {
				t.Error(err)
			}
		})
	}
}
