package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"syscall"
	"time"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// A disturbance is one fault: what is done to whom, how long after a step, and how long until it is undone.
type disturbance struct {
	what  string
	whom  string
	after uint64        // step at which it happens
	delay time.Duration // after that step was seen: the moment within a round
	lasts time.Duration // 0: it is not undone
}

func (d disturbance) String() string {
	if d.lasts == 0 {
		return fmt.Sprintf("step %d + %v: %s %s", d.after, d.delay, d.what, d.whom)
	}
	return fmt.Sprintf("step %d + %v: %s %s for %v", d.after, d.delay, d.what, d.whom, d.lasts)
}

// A kind of disturbance, with the roles that it may hit and how long it lasts.
type kind struct {
	what        string
	coordinator bool
	trainers    bool
	pservers    bool
	etcd        bool
	scales      bool // to numbers of trainers
	least, most time.Duration
}

// lease of the jobs under test: shorter than some pauses, longer than others.
const lease = 2 * time.Second

var kinds = []kind{
	{what: "scale to", scales: true},
	{what: "kill", coordinator: true, trainers: true},
	{what: "kill", etcd: true, least: 10 * time.Millisecond, most: 100 * time.Millisecond}, // until it is started again, which takes its time
	{what: "stop", coordinator: true, trainers: true, pservers: true, etcd: true, least: 50 * time.Millisecond, most: lease / 3},
	{what: "stop", coordinator: true, trainers: true, least: lease + time.Second, most: lease + 2*time.Second},
	{what: "cut the link to", coordinator: true, pservers: true, least: 50 * time.Millisecond, most: lease},
	{what: "slow the link to", coordinator: true, pservers: true, least: 50 * time.Millisecond, most: lease},
	{what: "reset the link to", coordinator: true, pservers: true, least: 10 * time.Millisecond, most: 100 * time.Millisecond},
	{what: "cut from etcd", coordinator: true, trainers: true, pservers: true, least: 50 * time.Millisecond, most: lease / 3},
	{what: "cut from etcd", coordinator: true, trainers: true, least: lease + time.Second, most: lease + 2*time.Second},
}

// draw makes a plan of n disturbances over a number of steps. hits says which of them may happen.
func draw(seed uint64, n int, steps uint64, trainers, pservers int, hits func(kind, string) bool) []disturbance {
	random := rand.New(rand.NewPCG(seed, 0))
	plan := make([]disturbance, 0, n)
	for len(plan) < n {
		k := kinds[random.IntN(len(kinds))]
		var whom []string
		if k.coordinator {
			whom = append(whom, "coordinator")
		}
		for i := range trainers {
			if k.trainers {
				whom = append(whom, fmt.Sprintf("trainer-%d", i))
			}
		}
		for i := range pservers {
			if k.pservers {
				whom = append(whom, fmt.Sprintf("pserver-%d", i))
			}
		}
		if k.etcd {
			whom = append(whom, "etcd")
		}
		for n := 2; n <= trainers && k.scales; n++ {
			whom = append(whom, strconv.Itoa(n))
		}
		d := disturbance{what: k.what, whom: whom[random.IntN(len(whom))], delay: time.Duration(random.Int64N(int64(20 * time.Millisecond)))}
		if k.most > 0 {
			d.lasts = k.least + time.Duration(random.Int64N(int64(k.most-k.least)))
		}
		d.after = steps * uint64(len(plan)+1) / uint64(n+2)
		if hits(k, d.whom) {
			plan = append(plan, d)
		}
	}
	return plan
}

// begin makes the disturbance happen, and returns what ends it, which is never nil.
func (r *rig) begin(d disturbance) (end func(), err error) {
	end = func() {}
	switch {
	case d.whom == "etcd" && d.what == "kill":
		r.etcd.Kill(0)
		return func() { r.etcd.Restart(0) }, nil
	case d.whom == "etcd" && d.what == "stop":
		r.etcd.Pause(0)
		return func() { r.etcd.Resume(0) }, nil
	}
	switch d.what {
	case "scale to":
		n, _ := strconv.Atoi(d.whom)
		err = wire.Retry(bounded(r.t), func(uint32) error { // a job that has just been submitted does not run yet
			_, err := r.client.Scale(bounded(r.t), &rpc.ScaleRequest{Job: r.job, Trainers: int32(n)})
			return wire.FromStatus("listener", err)
		})
	case "kill":
		err = r.signal(d.whom, syscall.SIGKILL)
	case "stop":
		err = r.signal(d.whom, syscall.SIGSTOP)
		end = func() { _ = r.signal(d.whom, syscall.SIGCONT) } // it may have been killed and started again meanwhile
	case "cut the link to":
		r.cut(d.whom)
		end = func() { r.mend(d.whom) }
	case "slow the link to":
		r.slow(d.whom, 30)
		end = func() { r.mend(d.whom) }
	case "reset the link to":
		r.reset(d.whom)
		end = func() { r.mend(d.whom) }
	case "cut from etcd":
		r.cut("etcd of " + d.whom)
		end = func() { r.mend("etcd of " + d.whom) }
	default:
		err = fmt.Errorf("no such disturbance")
	}
	return end, err
}
