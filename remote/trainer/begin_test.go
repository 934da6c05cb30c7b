package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
)

// recordsOf lists records one by one, in the order of list.
func recordsOf(list []ranges.Range) (out []int64) {
	for _, r := range list {
		for i := r.From; i < r.To; i++ {
			out = append(out, i)
		}
	}
	return out
}

// A sync job that begins within a pass trains what one that began at the first batch would train from there on: the same records in the same order,
// with the numbers of the same rounds, though it is shuffled, read ahead, and its passes end with a short batch. So does a generation that begins later.
func TestSyncJobBeginsWithinAPass(t *testing.T) {
	const records, batch, passes = 73, 5, 3
	const rounds = (records + batch - 1) / batch // of a pass
	data := testkit.Samples(t, t.TempDir(), records)
	for name, c := range map[string]struct {
		model testkit.Model
		read  queue.Reading
	}{
		"in order": {testkit.Reading(t, batch, optimizer.SGD(0.1)), queue.Reading{Rows: batch}},
		"shuffled": {shuffling(t, batch, 7), queue.Reading{Rows: batch, ShuffleBuffer: 7, ShuffleSeed: 11}},
	} {
		type trained struct {
			round   uint64
			pass    int
			records []int64
		}
		from := func(start queue.Position, left int, round uint64) (all []trained) {
			j := newReadingJob(t, c.model, data, queue.Policy{Sync: true, Passes: left, Trainers: 1, Start: start, Reading: c.read})
			j.current.Round = id.Round(round)
			s := j.alone(t)
			defer s.Close()
			for {
				b, err := s.Next(bounded(t))
				if errors.Is(err, io.EOF) {
					return all
				}
				if err != nil {
					t.Fatalf("%s, from %+v: %v", name, start, err)
				}
				all = append(all, trained{b.Step.Round, b.Pass, recordsOf(b.Records)})
			}
		}
		whole := from(queue.Position{}, passes, 0)
		if len(whole) != passes*rounds {
			t.Fatalf("%s: %d rounds, want %d", name, len(whole), passes*rounds)
		}
		for first := 1; first < len(whole); first += 4 {
			pass := first / rounds
			start := queue.Position{Round: id.Round(first), Pass: int32(pass), Batch: uint64(first % rounds)}
			for _, round := range []int{first, min(first+3, (pass+1)*rounds-1)} {
				got := from(start, passes-pass, uint64(round))
				if fmt.Sprint(got) != fmt.Sprint(whole[round:]) {
					t.Fatalf("%s: a job from %+v on, whose generation begins with round %d, trains %v\nwant %v", name, start, round, got, whole[round:])
				}
			}
		}
	}
}

// An async job begins with its first pass and step: random numbers are those that one machine would draw.
func TestAsyncJobBeginsLater(t *testing.T) {
	const records = 40
	j := newReadingJob(t, testkit.Reading(t, 4, optimizer.SGD(0.1)), testkit.Samples(t, t.TempDir(), records),
		queue.Policy{Passes: 2, Trainers: 1, Start: queue.Position{Pass: 3}})
	j.begin = &job.Progress{Steps: 30, Pass: 3}
	s := j.alone(t)
	defer s.Close()
	for step := uint64(30); ; step++ {
		b, err := s.Next(bounded(t))
		if errors.Is(err, io.EOF) {
			if step != 30+2*records/4 {
				t.Errorf("it ends before step %d", step)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if want := 3 + int(step-30)/(records/4); b.Step.Round != step || b.Pass != want {
			t.Fatalf("step %d of pass %d, want step %d of pass %d", b.Step.Round, b.Pass, step, want)
		}
	}
}

// Where rounds need permission, a trainer asks once for all that an answer covers, and no round begins before it may. When the answer is that the data
// ends, it has ended, and what was trained is reported.
func TestRoundsWaitForPermission(t *testing.T) {
	const records = 60
	j := newReadingJob(t, shuffling(t, 4, 7), testkit.Samples(t, t.TempDir(), records), queue.Policy{Sync: true, Passes: 1, Trainers: 1})
	j.asksPermission = true
	s := j.alone(t)
	defer s.Close()
	permission := map[uint64]uint64{0: 1, 1: 2, 2: 5, 5: 6} // by the round that asks for it
	var trained []ranges.Range
	for round := range uint64(6) {
		began := make(chan error, 1)
		go func() {
			b, err := s.Next(bounded(t))
			if err == nil && b.Step.Round != round {
				err = fmt.Errorf("round %d, want %d", b.Step.Round, round)
			}
			if err == nil {
				trained = append(trained, b.Records...)
			}
			began <- err
		}()
		if until := permission[round]; until > 0 {
			asked := j.permits + 1
			if err := j.await(bounded(t), func() (bool, error) { return j.permits == asked, nil }); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-began:
				t.Fatalf("round %d begins without permission: %v", round, err)
			default:
			}
			j.change(func() { j.permitted = until })
		}
		if err := <-began; err != nil {
			t.Fatal(err)
		}
	}
	if j.permits != len(permission) {
		t.Errorf("asked %d times, want %d", j.permits, len(permission))
	}
	end := uint64(6)
	j.change(func() { j.endRound = &end })
	if b, err := s.Next(bounded(t)); !errors.Is(err, io.EOF) {
		t.Errorf("after the last round: %v, %v", b, err)
	}
	if done := j.status().Done; done == 0 || slices.Contains(counts(records, trained)[:10*done], 0) {
		t.Errorf("%d tasks of 10 records are finished, with %v", done, trained)
	}
}

// A trainer that is drained while it waits for permission reports what it has trained, and nothing of the batch that it could not begin.
func TestDrainedWhileARoundMayNotBegin(t *testing.T) {
	const records = 60
	j := newReadingJob(t, testkit.Reading(t, 4, optimizer.SGD(0.1)), testkit.Samples(t, t.TempDir(), records), queue.Policy{Sync: true, Passes: 1, Trainers: 1})
	j.asksPermission, j.permitted = true, 5
	s := j.alone(t)
	defer s.Close()
	reading, drain := context.WithCancelCause(bounded(t))
	for range 5 {
		if _, err := s.Next(reading); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { _, err := s.Next(reading); ended <- err }()
	if err := j.await(bounded(t), func() (bool, error) { return j.permits == 2, nil }); err != nil {
		t.Fatal(err)
	}
	drain(fault.Drained)
	if err := <-ended; err == nil {
		t.Error("a round begins without permission")
	}
	if err := s.HandIn(bounded(t)); err != nil {
		t.Error(err)
	}
	if done := j.status().Done; done != 2 {
		t.Errorf("%d tasks of 10 records are finished after 5 batches of 4", done)
	}
}

// An answer that permits nothing is refused: the trainer would ask without end.
func TestPermissionForNothing(t *testing.T) {
	j := newReadingJob(t, testkit.Reading(t, 5, optimizer.SGD(0.1)), testkit.Samples(t, t.TempDir(), 10), queue.Policy{Sync: true, Passes: 1, Trainers: 1})
	j.asksPermission, j.client = true, permitsNothing{j.client}
	s := j.alone(t)
	defer s.Close()
	if _, err := s.Next(bounded(t)); fault.KindOf(err) != fault.Internal {
		t.Errorf("it goes on with %v", err)
	}
}

type permitsNothing struct{ rpc.CoordinatorClient }

func (permitsNothing) Permit(context.Context, *rpc.PermitRequest, ...grpc.CallOption) (*rpc.PermitResponse, error) {
	return &rpc.PermitResponse{}, nil
}

// Wherever a trainer hears that the job ends early, when it joins, when it asks for permission or while it reads ahead, it trains the rounds before
// the end and no other, and ends well.
func TestJobsEndEarly(t *testing.T) {
	const records, batch = 60, 4
	data := testkit.Samples(t, t.TempDir(), records)
	for _, m := range []testkit.Model{testkit.Reading(t, batch, optimizer.SGD(0.1)), shuffling(t, batch, 7)} {
		for end := uint64(0); end <= 2*records/batch+1; end++ {
			for _, where := range []string{"join", "permit", "task"} {
				j := newReadingJob(t, m, data, queue.Policy{Sync: true, Passes: 2, Trainers: 1})
				switch where {
				case "join":
					j.endAtJoin = &end
				case "permit":
					j.asksPermission, j.permitted, j.endRound, j.endAfter = true, end, &end, 1<<30
				case "task":
					j.endRound = &end
				}
				s := j.alone(t)
				var trained []ranges.Range
				rounds := uint64(0)
				var err error
				for {
					var b *executor.Batch
					if b, err = s.Next(bounded(t)); err != nil {
						break
					}
					rounds, trained = rounds+1, append(trained, b.Records...)
				}
				if !errors.Is(err, io.EOF) || rounds != min(end, 2*records/batch) {
					t.Errorf("an end at round %d, told by %s: %d rounds, %v", end, where, rounds, err)
				}
				q := j.status()
				if once := counts(records, trained)[:10*q.Done]; q.Done > 0 && slices.Min(once) < int(q.Pass)+1 {
					t.Errorf("an end at round %d, told by %s: %d tasks of pass %d are finished, with %v", end, where, q.Done, q.Pass, trained)
				}
				s.Close()
			}
		}
	}
}

// The state is written twice where the job says so, with the same values and the progress that the coordinator knows.
func TestStateIsSavedAndKept(t *testing.T) {
	m := testkit.Reading(t, 5, optimizer.Momentum(0.05, 0.9))
	known := &job.Progress{Steps: 4, Pass: 1, Reader: "r"}
	for name, progress := range map[string]*job.Progress{"saved and kept": known, "kept": known, "of unknown progress": nil, "not saved after all": known} {
		both := name != "kept"
		spec := &job.JobSpec{Trainers: 2, Pservers: 2}
		c := newTestJob(t, m, testkit.Samples(t, t.TempDir(), 20), spec, queue.Policy{Passes: 1, RecordsPerTask: 7, MaxFailures: 3})
		c.keep = t.TempDir()
		if both {
			spec.Save = t.TempDir()
			if err := executor.WriteProgress(spec.Save, executor.Progress{Steps: 99}); err != nil { // of another run
				t.Fatal(err)
			}
		}
		c.coordinator.progress, c.coordinator.withoutSave = progress, name == "not saved after all"
		if err := c.train(bounded(t), 2); err != nil {
			t.Fatal(err)
		}
		kept := testkit.Saved(t, c.keep, m.Program)
		if c.coordinator.withoutSave {
			if files, err := os.ReadDir(spec.Save); err != nil || len(files) != 1 {
				t.Errorf("%s: files %v, %v, want what another run has left", name, files, err)
			}
			spec.Save = ""
		}
		if spec.Save != "" {
			if err := testkit.Difference(testkit.Saved(t, spec.Save, m.Program), kept); err != nil {
				t.Error(err)
			}
		}
		for _, dir := range []string{spec.Save, c.keep} {
			if dir == "" {
				continue
			}
			have, ok, err := executor.ReadProgress(dir)
			if want := (executor.Progress{Steps: progress.GetSteps(), Pass: int(progress.GetPass()), Reader: progress.GetReader()}); err != nil ||
				ok != (progress != nil) || have != want {
				t.Errorf("%s: progress %+v, %v, %v", name, have, ok, err)
			}
			files, err := os.ReadDir(dir)
			if progress != nil {
				files = files[1:]
			}
			if err != nil || len(files) != len(kept) {
				t.Errorf("%s: files %v for the variables %v, %v", name, files, slices.Collect(maps.Keys(kept)), err)
			}
		}
	}
}

// The kept state is whole, and the trainer names itself, when the directory of the user cannot take a variable.
func TestStateIsKeptAlthoughItIsNotSaved(t *testing.T) {
	m := testkit.Reading(t, 5, optimizer.Momentum(0.05, 0.9))
	spec := &job.JobSpec{Trainers: 1, Pservers: 2, Save: t.TempDir()}
	variable := executor.Persistables(m.Program)[0]
	if err := os.MkdirAll(filepath.Join(spec.Save, variable, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := newTestJob(t, m, testkit.Samples(t, t.TempDir(), 20), spec, queue.Policy{Passes: 1, RecordsPerTask: 7, MaxFailures: 3})
	c.keep, c.coordinator.progress = t.TempDir(), &job.Progress{Steps: 4, Pass: 1, Reader: "r"}
	if err := c.train(bounded(t), 1); err == nil || !strings.Contains(err.Error(), "trainer 0") || !strings.Contains(err.Error(), variable) {
		t.Errorf("%v", err)
	}
	if kept := testkit.Saved(t, c.keep, m.Program); len(kept) != len(executor.Persistables(m.Program)) {
		t.Errorf("kept variables %v", slices.Collect(maps.Keys(kept)))
	}
	if p, ok, err := executor.ReadProgress(c.keep); err != nil || !ok || p.Steps != 4 {
		t.Errorf("kept progress %+v, %v, %v", p, ok, err)
	}
	if _, ok, err := executor.ReadProgress(spec.Save); err != nil || ok {
		t.Errorf("saved progress %v, %v", ok, err)
	}
}
