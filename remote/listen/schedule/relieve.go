package schedule

import (
	"cmp"
)

// relieve lets elastic jobs give trainers back that run on nodes which have less than jobs take there: others have come, or the node offers less. A node that is gone stays as it is,
// and so does what no job can give back. No more is given back than must be, so grow, which asks for the room of a whole trainer, does not take it again.
func relieve(m *Machine, out *Effects) {
	for _, n := range m.nodes {
		for !n.gone && crowded(m, n) {
			x, left := reliever(m, n)
			if x == nil {
				break
			}
			m.scale(x, left, out)
			m.calm = m.now
		}
	}
}

// crowded reports whether jobs take more than a node has, also when those trainers have ended that are on their way.
func crowded(m *Machine, n *node) bool {
	stays := n.used
	for _, x := range running(m) {
		for _, held := range x.held[x.want:] {
			if held == n {
				stays = stays.minus(x.Trainer)
			}
		}
	}
	return n.Has.Cores != 0 && stays.Cores > n.Has.Cores || n.Has.Memory != 0 && stays.Memory > n.Has.Memory
}

// reliever is the job that gives a trainer of a node back, and how many trainers it has left: of the lowest priority, of those the one that gives the fewest others with it, since the last trainers
// of a job leave first, then of the owner that has used the most. It is nil where none can.
func reliever(m *Machine, n *node) (best *entry, left int) {
	shares := m.shares()
	for _, x := range running(m) {
		if x.leaving || x.want <= x.Least {
			continue
		}
		for i := x.want - 1; i >= x.Least; i-- {
			if x.held[i] != n {
				continue
			}
			if best == nil || cmp.Or(cmp.Compare(x.Priority, best.Priority), cmp.Compare(x.want-i, best.want-left), cmp.Compare(shares[best.Owner], shares[x.Owner]), cmp.Compare(best.number, x.number)) < 0 {
				best, left = x, i
			}
			break
		}
	}
	return best, left
}
