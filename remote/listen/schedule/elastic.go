package schedule

import (
	"cmp"
	"slices"
)

// scale says that a job is to have another number of trainers. Those that are too many stay in held until they have ended.
func (m *Machine) scale(x *entry, trainers int, out *Effects) {
	x.want = trainers
	scale := Scale{x.ID, trainers, namesOf(x.held)[:min(trainers, len(x.held))]}
	if i := slices.IndexFunc(out.Scale, func(s Scale) bool { return s.ID == x.ID }); i >= 0 {
		out.Scale[i] = scale
		return
	}
	out.Scale = append(out.Scale, scale)
}

// grow gives elastic jobs the trainers that there is room for, those of the owner that has used the least first. It is called when nobody waits.
func (m *Machine) grow(out *Effects) {
	if m.now-m.calm < m.policy.Calm {
		return
	}
	for {
		shares := m.shares()
		list := slices.DeleteFunc(running(m), func(x *entry) bool { return x.want >= x.Most || x.want < len(x.held) || x.leaving })
		slices.SortStableFunc(list, func(a, b *entry) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(shares[a.Owner], shares[b.Owner]), cmp.Compare(a.want, b.want))
		})
		grown := false
		for _, x := range list {
			r := m.free()
			if !x.asked {
				r = slices.DeleteFunc(r, func(s space) bool { return s.Has.Cores == 0 })
			}
			if n := r.take(x.Trainer); n != nil {
				n.used = n.used.plus(x.Trainer)
				x.held = append(x.held, n)
				m.scale(x, x.want+1, out)
				grown = true
				break
			}
		}
		if !grown {
			return
		}
	}
}

// giveBack lets elastic jobs give trainers back if a job fits then, and reports whether it will. Only jobs of the same priority or a lower one give.
func (m *Machine) giveBack(needs *entry, out *Effects) bool {
	list := slices.DeleteFunc(running(m), func(x *entry) bool { return x.leaving })
	if !slices.ContainsFunc(list, func(x *entry) bool { return x.want < len(x.held) || x.want > x.Least }) {
		return false
	}
	r := m.free()
	want := map[*entry]int{}
	free := func(x *entry, from, to int) {
		for _, n := range x.held[from:to] {
			i := slices.IndexFunc(r, func(s space) bool { return s.node == n })
			r[i].left = r[i].left.plus(x.Trainer)
		}
	}
	fits := func() bool {
		_, _, ok := slices.Clone(r).place(&needs.Job, needs.Least)
		return ok
	}
	givers := slices.DeleteFunc(slices.Clone(list), func(x *entry) bool { return x.Priority > needs.Priority })
	for _, x := range list {
		free(x, x.want, len(x.held)) // on their way
		want[x] = x.want
	}
	if fits() {
		return true
	}
	shares := m.shares()
	slices.SortStableFunc(givers, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(shares[b.Owner], shares[a.Owner]), cmp.Compare(b.number, a.number))
	})
	for _, x := range givers {
		for want[x] > x.Least {
			want[x]--
			free(x, want[x], want[x]+1)
			if !fits() {
				continue
			}
			for _, y := range givers {
				if want[y] < y.want {
					m.scale(y, want[y], out)
				}
			}
			return true
		}
	}
	return false
}
