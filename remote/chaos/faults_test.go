package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
)

// A disturbance is one fault: what is done to whom, how long after a step, and how long until it is undone.
type disturbance struct {
	what  string
	whom  string
	after uint64        // step at which it happens
	delay time.Duration // after that step was seen: the moment within a round
	lasts time.Duration // 0: it is not undone
	saved bool          // a checkpoint is made before
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
	standbys    bool
	etcd        bool
	scales      bool // to numbers of trainers
	servers     int  // to numbers of pservers up to this one
	store       bool // the store of checkpoints
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

// serverKinds are what happens to pservers, to their standbys and to checkpoints, beside what kinds has.
var serverKinds = []kind{
	{what: "kill", pservers: true},
	{what: "kill", standbys: true},
	{what: "stop", standbys: true, least: 50 * time.Millisecond, most: lease / 3},
	{what: "stop", pservers: true, least: lease + time.Second, most: lease + 2*time.Second},
	{what: "pservers to", servers: 4},
	{what: unreachable, store: true, least: 100 * time.Millisecond, most: lease},
	{what: full, store: true, least: 100 * time.Millisecond, most: lease},
	{what: slow, store: true, least: 100 * time.Millisecond, most: lease},
	{what: silent, store: true, least: 100 * time.Millisecond, most: lease / 2},
}

// draw makes a plan of n disturbances over a number of steps. hits says which of them may happen.
func draw(seed uint64, n int, steps uint64, trainers, pservers int, hits func(kind, string) bool) []disturbance {
	return drawOf(kinds, seed, n, steps, trainers, pservers, hits)
}

// drawOf is draw of some kinds.
func drawOf(kinds []kind, seed uint64, n int, steps uint64, trainers, pservers int, hits func(kind, string) bool) []disturbance {
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
		for i := range pservers {
			if k.standbys {
				whom = append(whom, fmt.Sprintf("standby-%d", i))
			}
		}
		if k.etcd {
			whom = append(whom, "etcd")
		}
		if k.store {
			whom = append(whom, "store")
		}
		for n := 1; n <= k.servers; n++ {
			whom = append(whom, strconv.Itoa(n))
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
	case d.whom == "etcd" && d.what == "wipe":
		r.etcd.Kill(0)
		r.etcd.Wipe(0)
		return func() { r.etcd.Restart(0) }, nil
	case d.whom == "etcd" && d.what == "stop":
		r.etcd.Pause(0)
		return func() { r.etcd.Resume(0) }, nil
	}
	if d.whom == "store" {
		r.suffers(d.what)
		return func() { r.suffers("") }, nil
	}
	switch d.what {
	case "pservers to":
		n, _ := strconv.Atoi(d.whom)
		r.scaling.Go(func() { // other faults come meanwhile
			_, err := r.client.Scale(bounded(r.t), &rpc.ScaleRequest{Job: r.job, Pservers: int32(n)})
			r.t.Logf("%d pservers: %v", n, err)
		})
	case "scale to":
		n, _ := strconv.Atoi(d.whom)
		err = wire.Retry(bounded(r.t), func(id.Retry) error { // a job that has just been submitted does not run yet
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

// links are the proxies of one rig, by the name of what they lead to.
type links struct {
	t      testing.TB
	server *toxiproxy.ApiServer

	mu  sync.Mutex
	all map[string]*toxiproxy.Proxy
}

func newLinks(t testing.TB) *links {
	l := &links{t: t, server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), all: map[string]*toxiproxy.Proxy{}}
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, p := range l.all {
			p.Stop()
		}
	})
	return l
}

// to returns the address of the link called name, which leads to address from now on.
func (l *links) to(name, address string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	listen := "127.0.0.1:0"
	if p := l.all[name]; p != nil {
		if p.Upstream == address {
			return p.Listen
		}
		p.Stop()
	}
	p := toxiproxy.NewProxy(l.server, name, listen, address)
	if err := p.Start(); err != nil {
		l.t.Errorf("link %s: %v", name, err)
		return address
	}
	l.all[name] = p
	return p.Listen
}

// owns reports whether address is that of a link.
func (l *links) owns(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.all {
		if p.Listen == address {
			return true
		}
	}
	return false
}

func (l *links) get(name string) *toxiproxy.Proxy {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[name]
}

// cut drops what is on its way over a link, in both directions, until mend. The connections stay open: neither side sees an error.
func (l *links) cut(name string) { l.poison(name, `{"type":"timeout","attributes":{"timeout":0}}`) }

// slow delays what goes over a link by some milliseconds, until mend.
func (l *links) slow(name string, milliseconds int) {
	l.poison(name, fmt.Sprintf(`{"type":"latency","attributes":{"latency":%d,"jitter":%d}}`, milliseconds, milliseconds/2))
}

// reset breaks all connections of a link.
func (l *links) reset(name string) {
	l.poison(name, `{"type":"reset_peer","attributes":{"timeout":0}}`)
}

func (l *links) poison(name, toxic string) {
	p := l.get(name)
	if p == nil {
		return // the link leads nowhere now
	}
	for _, stream := range []string{"upstream", "downstream"} {
		spec := strings.Replace(toxic, "{", `{"name":"`+stream+`","stream":"`+stream+`",`, 1)
		if _, err := p.Toxics.AddToxicJson(strings.NewReader(spec)); err != nil {
			l.t.Errorf("link %s: %v", name, err)
		}
	}
}

// mend makes a link as it was.
func (l *links) mend(name string) {
	if p := l.get(name); p != nil {
		p.Toxics.ResetToxics(context.Background())
	}
}
