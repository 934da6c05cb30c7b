package coordinator

import "time"

// taskTimers holds a timer for each task that a trainer has. Server.mu guards it, except in the functions that the timers call.
type taskTimers map[taskKey]*time.Timer

type taskKey struct {
	dataset string
	id      int64
}

// start calls late after d, unless the task is stopped or started again before.
func (t taskTimers) start(dataset string, id int64, d time.Duration, late func()) {
	t.stop(dataset, id)
	t[taskKey{dataset, id}] = time.AfterFunc(d, late)
}

func (t taskTimers) stop(dataset string, id int64) {
	key := taskKey{dataset, id}
	if timer := t[key]; timer != nil {
		timer.Stop()
		delete(t, key)
	}
}

func (t taskTimers) stopAll() {
	for _, timer := range t {
		timer.Stop()
	}
	clear(t)
}
