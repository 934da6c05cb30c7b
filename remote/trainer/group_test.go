package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
	"google.golang.org/protobuf/proto"
)

// lead lets a process merge with others of its host, as the role does. end ends what that needs.
func (c *testJob) lead(ctx context.Context, cfg *Config) (end func()) {
	if c.hosts == nil {
		return func() {}
	}
	l, err := NewLeader(ctx, cfg.Identity, nil, cfg.Rank, "127.0.0.1", 0, wire.Listen)
	if err != nil {
		c.t.Error(err)
		return func() {}
	}
	cfg.Leader, cfg.Host = l, c.hosts[cfg.Rank]
	serve, cancel := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- l.Serve(serve) }()
	return func() {
		cancel()
		if err := <-served; err != nil {
			c.t.Error(err)
		}
	}
}

// groups returns the groups that the round had that was committed, by position.
func (c *fakeCoordinator) groups(round uint64) (groups [][]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range slices.Backward(c.began) {
		if g.Round > id.Round(round) {
			continue
		}
		for i, m := range g.Members {
			if g.Leader(m.Rank) != m.Rank {
				continue
			}
			group := []int{}
			for _, member := range g.Group(m.Rank) {
				group = append(group, g.Position(member.Rank))
			}
			if len(group) > 1 || group[0] != i {
				groups = append(groups, group)
			}
		}
		return groups
	}
	return nil
}

// normalizing is a model with moving statistics, which trainers send, too, and a summed loss for batches of 3.
func normalizing(t testing.TB, batch int) testkit.Model {
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(testkit.Width)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(r, batch)))
	cost := layers.SquareErrorCost(layers.FC(layers.BatchNorm(layers.FC(v[0], 10)), 1), v[1])
	reduce := layers.Mean
	if batch == 3 {
		reduce = layers.ReduceSum
	}
	loss := reduce(cost, layers.Name("loss"))
	optimizer.Adam(0.05).Minimize(loss)
	return testkit.Built(t, m, loss)
}

// Four trainers on two hosts compute what the reference computes with two groups, over each carrier and optimizer; the batches have rows for some of
// them only, too. Only leaders have connections to servers.
func TestLawOfTwoHosts(t *testing.T) {
	for _, over := range []string{"tcp", "unix", "shm"} {
		for _, servers := range []int32{1, 2} {
			for batch, groups := range map[int][][]int{7: {{0, 1}, {2, 3}}, 3: {{0, 2}, {1, 3}}} {
				t.Run(fmt.Sprintf("%s, %d servers, batches of %d", over, servers, batch), func(t *testing.T) {
					m, data := normalizing(t, batch), testkit.Samples(t, t.TempDir(), 44)
					spec := &job.JobSpec{Trainers: 4, Pservers: servers, Save: t.TempDir(), Fetch: []string{m.Loss}}
					c := newTestJob(t, m, data, spec, queue.Policy{Passes: 2, RecordsPerTask: 7, MaxFailures: 3})
					c.over, c.hosts = over, make([]string, 4)
					for i, g := range groups {
						for _, rank := range g {
							c.hosts[rank] = fmt.Sprint("host ", i)
						}
					}
					if err := c.train(bounded(t), 4); err != nil {
						t.Fatal(err)
					}
					oracle, err := reference.New(m.Program, 4)
					if err != nil {
						t.Fatal(err)
					}
					defer oracle.Close()
					oracle.Group(func(uint64) [][]int { return groups })
					if _, err := oracle.Train(bounded(t), m.Program, executor.TrainOptions{Data: data, Passes: 2}, nil); err != nil {
						t.Fatal(err)
					}
					if err := testkit.Difference(testkit.Saved(t, spec.Save, m.Program), testkit.Persistables(oracle.Scope(), m.Program)); err != nil {
						t.Error(err)
					}
					l := lawCase{model: m, data: data, records: 44, passes: 2}
					l.checkLedger(t, c, 0)
					l.checkReports(t, c, true)
				})
			}
		}
	}
}

// A led trainer whose leader is gone hears from a server that the generation has ended, and a leader whose led trainer is gone does, although neither
// talks to the server.
func TestGroupsHearOfTheEnd(t *testing.T) {
	for victim := range uint32(2) {
		t.Run(fmt.Sprintf("without trainer %d", victim), func(t *testing.T) {
			m, data := testkit.Reading(t, 4, optimizer.SGD(0.05)), testkit.Samples(t, t.TempDir(), 40)
			spec := &job.JobSpec{Trainers: 2, Pservers: 1, Save: t.TempDir(), Fetch: []string{m.Loss}}
			c := newTestJob(t, m, data, spec, queue.Policy{Passes: 1, RecordsPerTask: 40, MaxFailures: 3})
			c.over, c.hosts = "tcp", []string{"a", "a"}
			ctx := bounded(t)
			gone, regrouped := false, make(chan error, 1)
			c.call = func(rank uint32, _ int, when string, round uint64) {
				c.mu.Lock()
				now := !gone && round == 3 && when == "before writing data" && rank == 1-victim
				gone = gone || now
				c.mu.Unlock()
				if now {
					c.coordinator.end() // else the next process of the victim may join the generation that its last one was killed in
					c.killTrainer(victim)
					go func() { regrouped <- c.coordinator.regroup(ctx, 0, 1) }()
				}
			}
			if err := errors.Join(withoutCanceled(c.train(ctx, 2)), <-regrouped); err != nil {
				t.Fatal(err)
			}
			lawCase{model: m, records: 40, passes: 1}.checkLedger(t, c, 0)
		})
	}
}

// A led trainer whose connection breaks in the last round gets the parameters from the servers when its leader has left.
func TestLeaderLeavesFirst(t *testing.T) {
	for _, servers := range []int32{1, 2} {
		m, data := testkit.Reading(t, 4, optimizer.SGD(0.05)), testkit.Samples(t, t.TempDir(), 40)
		spec := &job.JobSpec{Trainers: 2, Pservers: servers, Fetch: []string{m.Loss, parameterOf(m)}}
		c := newTestJob(t, m, data, spec, queue.Policy{Passes: 1, RecordsPerTask: 40, MaxFailures: 3})
		c.over, c.hosts = "tcp", []string{"a", "a"}
		ctx := bounded(t)
		const last = 9
		var declared, cut atomic.Bool
		c.call = func(rank uint32, _ int, when string, round uint64) {
			switch {
			case rank == 1 && when == "after writing declare" && round == last:
				declared.Store(true)
			case rank == 1 && when == "before reading" && declared.CompareAndSwap(true, false):
				if err := c.coordinator.await(ctx, func() (bool, error) { return c.coordinator.left[0] != nil, nil }); err != nil {
					t.Error(err)
				}
				cut.Store(true)
			}
		}
		c.cut = func() bool { return cut.CompareAndSwap(true, false) }
		if err := c.train(ctx, 2); err != nil {
			t.Fatalf("%d servers: %v", servers, err)
		}
		lawCase{model: m, records: 40, passes: 1}.checkLedger(t, c, 0)
		var got []*job.Value // of the parameter after the last round, by trainer
		for _, r := range c.coordinator.committed() {
			for _, v := range r.Fetched {
				if r.Id.Round == last && v.Name == parameterOf(m) {
					got = append(got, v)
				}
			}
		}
		if len(got) != 2 || !proto.Equal(got[0], got[1]) {
			t.Errorf("%d servers: the trainers end with %v", servers, got)
		}
	}
}

func openRequest(who *rpc.Identity, send string) *rpc.OpenDataRequest {
	return &rpc.OpenDataRequest{Id: who, Send: []string{send}, Receive: []string{"w"}}
}

// Only a trainer of the job and of the group may connect to a leader, and only for the slices of all servers.
func TestLeaderRefuses(t *testing.T) {
	l, err := NewLeader(t.Context(), pstest.Identity, nil, 0, "127.0.0.1", 0, wire.Listen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- l.Serve(ctx) }()
	defer func() { cancel(); <-served }()
	g := &group{comm: &Comm{Rank: 0}, leader: l, generation: 3, rounds: newGroupRounds([]id.Rank{0, 2}, 7), lines: map[id.Rank]*groupLine{}}
	g.traffic.Send, g.traffic.Receive = []string{"g"}, []string{"w"}
	l.begin(3, g)
	of := func(job string, generation id.Generation) wire.Identity {
		i := pstest.Identity
		i.Job, i.Generation = job, generation
		return i
	}
	for name, c := range map[string]struct {
		job        string
		generation id.Generation
		rank       id.Rank
		send       string
		want       fault.Kind
	}{
		"another job":        {"other", 3, 2, "g", fault.Foreign},
		"an old generation":  {pstest.Identity.Job, 2, 2, "g", fault.Superseded},
		"another group":      {pstest.Identity.Job, 3, 1, "g", fault.Foreign},
		"the leader itself":  {pstest.Identity.Job, 3, 0, "g", fault.Foreign},
		"slices of others":   {pstest.Identity.Job, 3, 2, "h", fault.Foreign},
		"the group: refused": {pstest.Identity.Job, 4, 2, "g", fault.Canceled},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if c.generation == 4 { // it waits for the leader to begin that generation
			cancel()
		}
		_, err := l.OpenData(ctx, openRequest(of(c.job, c.generation).Of(c.rank, 7, 0), c.send))
		if fault.KindOf(err) != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		cancel()
	}
	if _, err := l.OpenData(ctx, openRequest(of(pstest.Identity.Job, 3).Of(2, 7, 0), "g")); err != nil {
		t.Error(err)
	}
	g.end()
	if _, err := l.OpenData(ctx, openRequest(of(pstest.Identity.Job, 3).Of(2, 7, 0), "g")); !errors.Is(err, fault.Superseded) {
		t.Errorf("after the end: %v", err)
	}
}

// A frame that a led trainer must not send ends its connection with the reason, and changes nothing at the leader. What is sent again counts once.
func TestLeaderRefusesFrames(t *testing.T) {
	l, err := NewLeader(t.Context(), pstest.Identity, nil, 0, "127.0.0.1", 0, wire.Listen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(bounded(t))
	served := make(chan error, 1)
	go func() { served <- l.Serve(ctx) }()
	defer func() { cancel(); <-served }()
	slice := dataplane.Table{{Name: "g", DType: tensor.Float32, Dims: []int64{4}, Bytes: 16}}
	g := &group{comm: &Comm{Rank: 0}, leader: l, generation: 3, rounds: newGroupRounds([]id.Rank{0, 2}, 7), lines: map[id.Rank]*groupLine{},
		arrived: map[id.Rank][]*tensor.Tensor{}, send: slice, receive: slice, all: []int{0}}
	g.traffic.Send, g.traffic.Receive = []string{"g"}, []string{"w"}
	if g.params, err = tensorsOf(slice); err != nil {
		t.Fatal(err)
	}
	l.begin(3, g)
	who := pstest.Identity
	who.Generation = 3
	open := func(t *testing.T) *dataplane.Conn {
		t.Helper()
		r, err := l.OpenData(ctx, openRequest(who.Of(2, 7, 0), "g"))
		if err != nil {
			t.Fatal(err)
		}
		conn, err := (&dataplane.Dialer{Carrier: dataplane.TCP}).Dial(ctx, dataplane.Place{Address: r.Address, Token: r.Token},
			dataplane.Layout{Send: slice, Receive: slice})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Free)
		conn.Bound(ctx, time.Time{})
		return conn
	}
	head := func(k dataplane.Kind) dataplane.Head {
		return dataplane.Head{Kind: k, Generation: 3, Round: 7, Rank: 2}
	}
	changed := func(h dataplane.Head, change func(*dataplane.Head)) dataplane.Head { change(&h); return h }
	data := func(c *dataplane.Conn, h dataplane.Head) error {
		return c.WriteSlices(h, []int{0}, func(int) ([]byte, error) { return make([]byte, 16), nil })
	}
	for name, c := range map[string]struct {
		send func(*dataplane.Conn) error
		want fault.Kind
	}{
		"another rank": {func(c *dataplane.Conn) error {
			return data(c, changed(head(dataplane.Data), func(h *dataplane.Head) { h.Rank = 0 }))
		}, fault.Foreign},
		"another generation": {func(c *dataplane.Conn) error {
			return data(c, changed(head(dataplane.Data), func(h *dataplane.Head) { h.Generation = 2 }))
		}, fault.Foreign},
		"a round to come": {func(c *dataplane.Conn) error {
			return data(c, changed(head(dataplane.Data), func(h *dataplane.Head) { h.Round = 9 }))
		}, fault.Foreign},
		"an answer": {func(c *dataplane.Conn) error { return c.WriteMessage(head(dataplane.Ack), nil) }, fault.Corrupt},
		"rows without a contribution": {func(c *dataplane.Conn) error {
			return c.WriteMessage(head(dataplane.Declare), &rpc.BarrierRequest{Rows: 2, Variables: 1})
		}, fault.InvalidArgument},
		"records before the first": {func(c *dataplane.Conn) error {
			return c.WriteMessage(head(dataplane.Declare), &rpc.BarrierRequest{Records: []*rpc.RecordRange{{From: -1, To: 2}}})
		}, fault.InvalidArgument},
		"a pass before the first": {func(c *dataplane.Conn) error {
			return c.WriteMessage(head(dataplane.Declare), &rpc.BarrierRequest{Pass: -1})
		}, fault.InvalidArgument},
		"a declaration for others": {func(c *dataplane.Conn) error {
			return c.WriteMessage(head(dataplane.Declare), &rpc.BarrierRequest{Group: []*rpc.Declared{{Rank: 0}}})
		}, fault.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			conn := open(t)
			if err := c.send(conn); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.ReadHead(); fault.KindOf(err) != c.want {
				t.Errorf("%v, want %v", err, c.want)
			}
			g.Lock()
			defer g.Unlock()
			if got := g.rounds.String(); got != "round 7; trainer 0; trainer 2" {
				t.Errorf("the leader is in %s", got)
			}
		})
	}
	for range 2 { // the answer is lost, and all comes again on another connection
		conn := open(t)
		if err := data(conn, head(dataplane.Data)); err != nil {
			t.Fatal(err)
		}
		if h, err := conn.ReadHead(); err != nil || h.Kind != dataplane.Ack {
			t.Fatalf("%+v, %v, want an ack", h, err)
		}
	}
	conn := open(t)
	if err := conn.WriteMessage(head(dataplane.Declare), &rpc.BarrierRequest{Rows: 2, Variables: 1}); err != nil {
		t.Fatal(err)
	}
	if err := g.Await(ctx, func() waits.Wait { return waits.Wait{} }, func() (bool, error) { return len(g.rounds.missing()) == 1, nil }); err != nil {
		t.Fatal(err)
	}
	g.end()
	if _, err := conn.ReadHead(); !errors.Is(err, fault.Superseded) {
		t.Errorf("a trainer that waits for the parameters is told %v, want that the generation has ended", err)
	}
}
