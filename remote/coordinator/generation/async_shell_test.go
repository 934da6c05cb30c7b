package generation_test

import "github.com/edl-go/edl/remote/coordinator/generation"

// shell takes what the registry and trainers say to the coordinator that there is now.
func (w *asyncWorld) shell() shell {
	fence := w.fence
	return shell{&w.leases, w.machine, w.step, func(f func()) {
		w.pending = append(w.pending, func() {
			if fence == w.fence {
				f()
			}
		})
	}}
}

// later lets an effect on the store happen, unless another coordinator has the lock by then; this one may crash before it knows.
func (w *asyncWorld) later(effect func() generation.Event) {
	fence, done := w.fence, false
	w.pending = append(w.pending, func() {
		if fence != w.fence || done {
			return
		}
		done = true
		if e := effect(); w.chance.IntN(12) > 0 {
			w.step(e)
		} else {
			w.restart()
		}
	})
}

// toServers lets an effect happen on all servers, each of which may hear of it twice, also when another coordinator has followed this one.
func (w *asyncWorld) toServers(effect func(i int, s *asyncServer) generation.Event) {
	fence := w.fence
	for i, s := range w.servers {
		for range 1 + w.chance.IntN(2) {
			w.pending = append(w.pending, func() {
				if fence < s.fence {
					return
				}
				s.fence = fence
				if e := effect(i, s); fence == w.fence {
					w.step(e)
				}
			})
		}
	}
}
