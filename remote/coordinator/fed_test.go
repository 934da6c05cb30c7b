package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// moment is how far a trainer of a fed job is with a step.
type moment string

const (
	given    moment = "given"    // it has its share
	sent     moment = "sent"     // it has sent its gradient, and not declared it
	declared moment = "declared" // and has declared it
	received moment = "received" // and has received what follows, and not reported the step
	reported moment = "reported" // and has reported it
)

// fedJob is a fed sync job over a real pserver, whose trainers take part message by message. The gradient of a row is its number. What a step fetches
// are the numbers of its rows.
type fedJob struct {
	*home
	server *pstest.Server
	began  uint64 // round of the first step

	mu    sync.Mutex
	now   running
	sizes map[uint32]bool // of the generations that trained
	once  map[string]bool // what was disturbed

	unknown int // steps that are trained, and whose values nobody lived to report
}

func (j *fedJob) current() running {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.now
}

// first reports whether something is done for the first time.
func (j *fedJob) first(what string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	was := j.once[what]
	j.once[what] = true
	return !was
}

// crash lets another coordinator take the place of the one that runs.
func (j *fedJob) crash() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.now.stop()
	<-j.now.ended
	j.now = j.start()
}

// call asks the coordinator until one answers.
func (j *fedJob) call(f func(s running) error) error {
	for {
		err := wire.FromStatus("coordinator", f(j.current()))
		if !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.Canceled) {
			return err
		}
	}
}

// trainer is one process: it trains until the end of the feeds, unless act ends it.
func (j *fedJob) trainer(rank uint32, incarnation uint64, act func(at moment, number uint64) (die bool)) error {
	t := &fedTrainer{fedJob: j, Trainer: pstest.Trainer{Client: j.server.Client, Rank: rank}, act: act}
	for fence, last := uint64(0), uint64(0); ; {
		j.live.set(rank, incarnation)
		var r *rpc.JoinResponse
		if err := j.call(func(s running) (err error) {
			r, err = s.client.Join(j.t.Context(), &rpc.JoinRequest{Id: idOf(last, rank, 0), Incarnation: incarnation})
			return err
		}); err != nil || r.DataEnded {
			return err
		}
		j.mu.Lock()
		j.sizes[r.Trainers] = true
		j.mu.Unlock()
		if t.last != nil && r.Fence > fence {
			if err := t.report(t.last); err != nil {
				return err
			}
		}
		fence, last = r.Fence, r.Generation
		died, err := t.items(r)
		if died || !errors.Is(err, fault.Superseded) {
			return err
		}
	}
}

type fedTrainer struct {
	*fedJob
	pstest.Trainer
	act  func(at moment, number uint64) (die bool)
	last *rpc.TrainerStep // the report of the last step, until it has the next item
}

func (t *fedTrainer) report(m *rpc.TrainerStep) error {
	return t.call(func(s running) error { return s.report(t.t.Context(), m) })
}

// items does what it is handed in one generation.
func (t *fedTrainer) items(in *rpc.JoinResponse) (died bool, err error) {
	ctx, round := t.t.Context(), in.Round
	who := func(round uint64) *rpc.Identity {
		id := idOf(in.Generation, t.Rank, round)
		id.Fence = in.Fence
		return id
	}
	for item := uint64(0); ; item++ {
		share := &rpc.FeedShare{}
		if err := t.call(func(s running) error {
			stream, err := s.client.NextFeed(ctx, &rpc.NextFeedRequest{Id: who(round), Item: item})
			if err != nil {
				return err
			}
			return wire.Receive("coordinator", stream, share, wire.MaxStep)
		}); err != nil {
			return false, err
		}
		if share.End {
			_, err := t.Client.Complete(ctx, &rpc.CompleteRequest{Id: who(round)})
			return false, errors.Join(err, t.call(func(s running) error {
				_, err := s.client.Leave(ctx, &rpc.LeaveRequest{Id: who(round)})
				return err
			}))
		}
		if share.Step != round {
			return false, fmt.Errorf("trainer %d of generation %d is given step %d for round %d", t.Rank, in.Generation, share.Step, round)
		}
		t.last = nil
		if len(share.Feed) == 0 {
			value, _, err := t.GetAs(ctx, &rpc.GetRequest{Id: who(round), Name: "w0"}, 1) // waits for the round before
			if err == nil {
				err = t.report(&rpc.TrainerStep{Id: who(share.Step), Fetched: []*job.Value{{Name: "w0", Stream: tensor.AppendStream(nil, value)}}})
			}
			if err != nil {
				return false, err
			}
			continue
		}
		if died, err := t.train(ctx, who, round, share, in.Trainers); died || err != nil {
			return died, err
		}
		round++
	}
}

// train trains a share of a batch.
func (t *fedTrainer) train(ctx context.Context, who func(uint64) *rpc.Identity, round uint64, share *rpc.FeedShare, trainers uint32) (bool, error) {
	text, err := rowsOf(share)
	m := &rpc.TrainerStep{Id: who(round), Rows: share.Rows, GlobalRows: share.GlobalRows, Trainers: trainers}
	if share.Rows > 0 {
		m.Fetched = []*job.Value{{Name: "y", Stream: []byte(text)}}
	}
	number := round - t.began
	if t.act(given, number) {
		return true, nil
	}
	barrier := &rpc.BarrierRequest{Id: who(round), Rows: share.Rows}
	if share.Rows > 0 && err == nil {
		barrier.Variables = 1
		_, err = t.SendAs(ctx, who(round), "w0@GRAD", pstest.Filled(1, float32(2*share.RowOffset+share.Rows-1)/2))
	}
	if err != nil {
		return false, err
	}
	if t.act(sent, number) {
		return true, nil
	}
	if _, err := t.Client.SendBarrier(ctx, barrier); err != nil {
		return false, err
	}
	t.last = m
	if t.act(declared, number) {
		return true, nil
	}
	_, _, err = t.GetAs(ctx, &rpc.GetRequest{Id: who(round + 1), Name: "w0"}, 1)
	switch {
	case err == nil:
		if t.act(received, number) {
			return true, nil
		}
	case errors.Is(err, fault.Superseded):
		m.Pending = true
	default:
		return false, err
	}
	if err := errors.Join(t.report(m), err); err != nil {
		return false, err
	}
	return t.act(reported, number), nil
}

// step is what the user calls, again when a coordinator is lost.
func (j *fedJob) step(run *rpc.StepRun) (step *job.Step, err error) {
	err = j.call(func(s running) error {
		step, err = s.feed(j.t.Context(), run)
		return err
	})
	return step, err
}

// Whoever comes and goes, at whatever moment of a step, and whatever coordinator there is: a fed job trains every batch once, in order, and answers what
// an undisturbed one does.
func TestFedJobsComeThrough(t *testing.T) {
	type disturbance func(j *fedJob, rank uint32, at moment, number uint64) (die bool)
	lose := func(rank uint32, when moment) disturbance { // and another process of the rank comes, if the job wants it
		return func(j *fedJob, r uint32, at moment, number uint64) bool {
			if r != rank || at != when || number != 2 || !j.first("lost") {
				return false
			}
			j.current().lose(rank)
			return true
		}
	}
	crash := func(when moment) disturbance {
		return func(j *fedJob, r uint32, at moment, number uint64) bool {
			if r == 1 && at == when && number == 2 && j.first("crash") {
				j.crash()
			}
			return false
		}
	}
	for name, c := range map[string]struct {
		least, most, first int
		began              uint64
		act                disturbance
		again              bool // the process that dies is followed by another
		sizes              []uint32
		unknown            bool // what step 2 fetched may be
	}{
		"nothing happens":                      {least: 2, most: 2, first: 2, act: nil, sizes: []uint32{2}},
		"the state has 40 steps":               {least: 2, most: 2, first: 2, began: 40, act: nil, sizes: []uint32{2}},
		"one is lost with its share":           {least: 1, most: 2, first: 2, act: lose(1, given), sizes: []uint32{2, 1}},
		"one is lost with its gradient sent":   {least: 1, most: 3, first: 3, act: lose(0, sent), sizes: []uint32{3, 2}},
		"one is lost when it has declared":     {least: 1, most: 2, first: 2, act: lose(1, declared), sizes: []uint32{2, 1}, unknown: true},
		"one is lost before it reports":        {least: 1, most: 2, first: 2, act: lose(1, received), sizes: []uint32{2, 1}, unknown: true},
		"one is lost after its report":         {least: 1, most: 2, first: 2, act: lose(1, reported), sizes: []uint32{2, 1}},
		"one is lost of a job of two":          {least: 2, most: 2, first: 2, act: lose(1, sent), again: true, sizes: []uint32{2}},
		"one is lost where the state has some": {least: 2, most: 2, first: 2, began: 7, act: lose(0, sent), again: true, sizes: []uint32{2}},
		"the only one is lost":                 {least: 1, most: 1, first: 1, act: lose(0, sent), again: true, sizes: []uint32{1}},
		"a coordinator is lost with a share":   {least: 2, most: 2, first: 2, act: crash(given), sizes: []uint32{2}},
		"a coordinator is lost in a step":      {least: 2, most: 2, first: 2, act: crash(sent), sizes: []uint32{2}},
		"a coordinator is lost in a commit":    {least: 2, most: 2, first: 2, began: 40, act: crash(declared), sizes: []uint32{2}},
		"a coordinator is lost before reports": {least: 2, most: 2, first: 2, began: 40, act: crash(received), sizes: []uint32{2}},
		"a coordinator is lost after reports":  {least: 2, most: 2, first: 2, act: crash(reported), sizes: []uint32{2}},
		"a third is wanted": {least: 1, most: 3, first: 2, sizes: []uint32{2, 3}, act: func(j *fedJob, rank uint32, at moment, number uint64) bool {
			if at == sent && number == 2 && j.first("scaled") {
				if err := j.live.await(j.t.Context(), 2); err != nil { // else the feeds may end before it comes
					j.t.Error(err)
				}
				j.current().Want(3)
			}
			return false
		}},
		"one drains": {least: 1, most: 3, first: 3, sizes: []uint32{3, 2}, act: func(j *fedJob, rank uint32, at moment, number uint64) bool {
			if rank != 1 || at != reported || number != 2 || !j.first("drained") {
				return false
			}
			if _, err := j.current().client.Leave(j.t.Context(), &rpc.LeaveRequest{Id: idOf(1, rank, number), Drained: true}); err != nil {
				j.t.Error(err)
			}
			return true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			j := newFedJob(t, c.least, c.most, c.began)
			j.wanted = c.first
			j.now = j.start()
			batches := []int64{5, 2, 7, 1, 4, 3}
			trainers := max(c.first, int(c.sizes[len(c.sizes)-1]))
			err := pstest.Parallel(trainers+1, func(i int) error {
				if i == trainers {
					return j.session(batches, c.unknown)
				}
				rank := uint32(i)
				died := false
				act := func(at moment, number uint64) bool {
					died = c.act != nil && c.act(j, rank, at, number)
					return died
				}
				err := j.trainer(rank, incarnation(rank), act)
				if died && c.again && err == nil {
					err = j.trainer(rank, incarnation(rank)+200, act)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := <-j.current().ended; err != nil {
				t.Fatal(err)
			}
			for _, n := range c.sizes {
				if !j.sizes[n] {
					t.Errorf("generations of %v trainers, want one of %d", j.sizes, n)
				}
			}
		})
	}
}

func newFedJob(t *testing.T, least, most int, began uint64) *fedJob {
	cfg := config(least)
	cfg.Fed, cfg.TrainersMax, cfg.Begin = true, most, &job.Progress{Steps: began, Pass: 3, Batch: 5, Reader: "reader"}
	server := pstest.Config(most)
	for range began {
		server.Start++
	}
	j := &fedJob{home: newHome(t, cfg), server: pstest.New(t, server), began: began, sizes: map[uint32]bool{}, once: map[string]bool{}}
	j.cfg.Servers = []rpc.ParameterServerClient{j.server.Client}
	j.server.Serve(pstest.SGD(0, true, 1, 1))
	return j
}

// session is the user of the job, who ends it.
func (j *fedJob) session(batches []int64, unknown bool) error {
	err := j.steps(batches, unknown)
	var r *rpc.FinishDataResponse
	err = errors.Join(err, j.call(func(s running) (err error) {
		r, err = s.client.Finish(j.t.Context(), &rpc.FinishDataRequest{Id: idOf(0, 0, 0)})
		return err
	}))
	if err == nil && r.Steps != j.began+uint64(len(batches)) {
		return fmt.Errorf("the job ends with %d steps", r.Steps)
	}
	return err
}

func (j *fedJob) steps(batches []int64, unknown bool) error {
	want := float32(0)
	for i, rows := range batches {
		number := uint64(i)
		var text strings.Builder
		for row := range rows {
			fmt.Fprintf(&text, "%d ", row)
		}
		step, err := j.step(&rpc.StepRun{Step: number, Feed: []*job.Value{batch(rows)}, Fetch: []string{"y"}})
		want -= float32(rows-1) / 2
		switch {
		case unknown && errors.Is(err, fault.Duplicate) && strings.Contains(err.Error(), "that is trained"):
			j.unknown++
		case err != nil:
			return err
		case step.Step != j.began+number || step.Rows != rows || string(step.Fetched[0].Stream) != text.String():
			return fmt.Errorf("step %d: %d rows of step %d: %s", i, step.Rows, step.Step, step.Fetched[0].Stream)
		}
		for range i % 3 {
			step, err := j.step(&rpc.StepRun{Step: number + 1, Fetch: []string{"w0"}})
			if err != nil {
				return err
			}
			value, _, err := tensor.DecodeStream(step.Fetched[0].Stream, tensor.Limits{})
			if err != nil || math.Abs(float64(value.Float32s()[0]-want)) > 1e-4 {
				return fmt.Errorf("after step %d the parameter is %v, want %v: %v", i, value, want, err)
			}
		}
	}
	return nil
}

// Several disturbances, at moments that chance chooses. The parameter is that of an undisturbed job, and no more steps are without an answer than trainers
// have died.
func TestFedJobsUnderRandomLosses(t *testing.T) {
	const most, disturbances = 3, 4
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			j := newFedJob(t, 1, most, 7)
			chance := rand.New(rand.NewPCG(seed, 0))
			left, deaths := disturbances, 0
			j.wanted = 1 + chance.IntN(most)
			j.now = j.start()
			act := func(rank uint32) func(moment, uint64) bool {
				return func(moment, uint64) bool {
					j.mu.Lock()
					what := chance.IntN(40)
					if left == 0 || what > 2 {
						j.mu.Unlock()
						return false
					}
					left--
					if what == 0 {
						deaths++
					}
					j.mu.Unlock()
					switch what {
					case 0:
						j.live.remove(rank)
						if err := j.current().Lost(t.Context(), trainerOf(rank)); err != nil {
							t.Error(err)
						}
						return true
					case 1:
						j.crash()
					case 2:
						j.current().Want(1 + int(rank))
					}
					return false
				}
			}
			err := pstest.Parallel(most+1, func(i int) error {
				if i == most {
					return j.session([]int64{5, 2, 7, 1, 4, 3, 6, 2}, true)
				}
				for incarnation := incarnation(uint32(i)); ; incarnation += 100 { // a process that dies is followed by another
					died := false
					disturb := act(uint32(i))
					err := j.trainer(uint32(i), incarnation, func(at moment, number uint64) bool {
						died = disturb(at, number)
						return died
					})
					if !died {
						return err
					}
				}
			})
			if err != nil {
				t.Error(err)
			}
			if err := <-j.current().ended; err != nil {
				t.Error(err)
			}
			if j.unknown > deaths {
				t.Errorf("%d steps have no answer, and %d trainers have died", j.unknown, deaths)
			}
		})
	}
}

// A session whose parameters are gone is told how many steps it has lost, and one whose user has skipped a step what is wrong.
func TestFedJobThatStartsOver(t *testing.T) {
	j := newFedJob(t, 1, 1, 10)
	j.now = j.start()
	done := make(chan error, 1)
	go func() { done <- j.trainer(0, incarnation(0), func(moment, uint64) bool { return false }) }()
	_, err := j.step(&rpc.StepRun{Step: 3, Feed: []*job.Value{batch(2)}})
	if !errors.Is(err, fault.LostMember) || !strings.Contains(err.Error(), "the 3 steps") {
		t.Error(err)
	}
	if err := j.session([]int64{2, 3}, false); err != nil {
		t.Error(err)
	}
	if _, err := j.step(&rpc.StepRun{Step: 3, Feed: []*job.Value{batch(2)}}); !errors.Is(err, fault.InvalidArgument) && !errors.Is(err, fault.Stale) {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
