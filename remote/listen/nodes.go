package listen

import (
	"cmp"
	"context"
	"os"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen/schedule"
)

// nodeName is the name of the machine of a listener.
func nodeName(cfg *Config) string {
	system, _ := os.Hostname()
	return cmp.Or(cfg.Node, system, "here")
}

// setNodes says which machines there are. mu is held, or nobody else has the queue yet.
func (q *queue) setNodes(list []schedule.Node) error {
	q.nodes = list
	list = slices.Clone(list)
	for i := range list {
		list[i].Cordoned = q.off[list[i].Name]
	}
	return q.stepLocked(schedule.Nodes{List: list})
}

// cordon lets nothing start on a node, or lets roles start there again.
func (q *queue) cordon(name string, off bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := func(n schedule.Usage) bool { return n.Name == name }
	if usages := schedule.Usages(q.machine); !slices.ContainsFunc(usages, known) && (off || !q.off[name]) {
		names := make([]string, len(usages))
		for i, u := range usages {
			names[i] = u.Name
		}
		return fault.E(fault.NotFound, fault.Got("node "+fault.Quote(name)), fault.DidYouMean(name, names), fault.Wantf("one of %q", names))
	}
	if off {
		q.off[name] = true
	} else {
		delete(q.off, name)
	}
	q.save()
	return q.setNodes(q.nodes)
}

// usages are the machines, with what jobs take of them.
func (q *queue) usages() *rpc.NodesResponse {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := &rpc.NodesResponse{}
	for _, u := range schedule.Usages(q.machine) {
		n := &rpc.NodeStatus{Name: u.Name, Has: &job.Needs{Memory: u.Has.Memory}, Promised: &job.Needs{Millicores: &u.Used.Cores, Memory: u.Used.Memory}, Jobs: int32(u.Jobs), Cordoned: u.Cordoned}
		if u.Has.Cores > 0 {
			n.Has.Millicores = &u.Has.Cores
		}
		r.Nodes = append(r.Nodes, n)
	}
	return r
}

// Nodes tells what the machines that run roles have.
func (s *Server) Nodes(context.Context, *rpc.NodesRequest) (*rpc.NodesResponse, error) {
	return s.Manager.queue.usages(), nil
}

// CordonNode lets nothing start on a node, or lets roles start there again.
func (s *Server) CordonNode(_ context.Context, m *rpc.CordonNodeRequest) (*rpc.NodesResponse, error) {
	if err := s.Manager.queue.cordon(m.Node, !m.Uncordon); err != nil {
		return nil, err
	}
	return s.Manager.queue.usages(), nil
}

// offersOf is what jobs share on this machine; nil: nothing is counted, or it is not this machine that runs roles.
func offersOf(q *queue) *job.Needs {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.spread || q.nodes[0].Has == (schedule.Resources{}) {
		return nil
	}
	n := &job.Needs{Memory: q.nodes[0].Has.Memory}
	if q.nodes[0].Has.Cores > 0 {
		n.Millicores = new(q.nodes[0].Has.Cores)
	}
	return n
}

// SetNodes says on which nodes the roles of a manager with Config.Spread run, and what they offer.
func SetNodes(m *Manager, list []schedule.Node) error {
	m.queue.mu.Lock()
	defer m.queue.mu.Unlock()
	return m.queue.setNodes(list)
}

// Cordoned reports whether nothing starts on a node.
func Cordoned(m *Manager, node string) bool {
	m.queue.mu.Lock()
	defer m.queue.mu.Unlock()
	return m.queue.off[node]
}

// nodeFor is the node that a role of a job has cores on; empty: it has none, or that node does not count them.
func (q *queue) nodeFor(j *Job, m cluster.Member) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	x := q.jobs[j.ID]
	if !q.spread || x == nil {
		return ""
	}
	nodes, at := x.nodes, m.Index
	if m.Role != job.Role_TRAINER {
		nodes, at = x.servers, serverPlace(m, j.spec.Standby)
	}
	takes, known := j.needs.of(m, j.spec.Standby)
	if !known {
		return ""
	}
	counted := func(n schedule.Node) bool { return n.Name == nodes[at] && n.Has.Cores > 0 }
	if takes.Cores == 0 || at >= len(nodes) || !slices.ContainsFunc(q.nodes, counted) {
		return ""
	}
	return nodes[at]
}
