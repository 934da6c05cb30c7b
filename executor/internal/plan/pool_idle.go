package plan

import "time"

// spinTime is how long an idle worker looks for work: about what it takes to put it to sleep and to wake it on a virtual machine, so
// waiting costs at most twice what the better choice would have. It covers the gaps between the steps of a plan, and between
// one run of a plan and the next.
const spinTime = 100 * time.Microsecond

// spinLooks is how often a worker looks between two readings of the clock.
const spinLooks = 256

// notify tells idle workers that there may be something for them. The caller holds the lock.
func (p *Pool) notify(all bool) {
	p.posted.Add(1)
	switch {
	case p.asleep == 0:
	case all:
		p.wake.Broadcast()
	default:
		p.wake.Signal()
	}
}

// idle waits until something may have been posted. It holds the lock when it is called and when it returns.
func (p *Pool) idle() {
	if seen := p.posted.Load(); p.spins {
		p.mu.Unlock()
		p.look(seen)
		p.mu.Lock()
		if p.posted.Load() != seen {
			return
		}
	}
	p.asleep++
	p.wake.Wait()
	p.asleep--
}

// look returns when something was posted after seen, or when spinTime has passed.
func (p *Pool) look(seen uint32) {
	for start := time.Now(); time.Since(start) < spinTime; {
		for range spinLooks {
			if p.posted.Load() != seen {
				return
			}
		}
	}
}
