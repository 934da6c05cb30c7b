package trainer

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/tensor"
)

// A directory that has failed is written again by the next try; one that has the state is left alone.
func TestAStorageTriesAgainWhatHasFailed(t *testing.T) {
	base := t.TempDir()
	keep, saved := filepath.Join(base, "keep"), filepath.Join(base, "saved")
	s, err := openStorage(executor.Files{}, keep, saved)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	value, err := tensor.New(tensor.Float32, 1)
	if err != nil {
		t.Fatal(err)
	}
	try := func(steps uint64) error {
		if err := s.begin(); err != nil {
			return err
		}
		return errors.Join(s.Save("w", []*tensor.Tensor{value}, true), s.commit(&job.Progress{Steps: steps}), s.failure())
	}
	inTheWay := filepath.Join(saved, "w", "file")
	if err := errors.Join(os.Mkdir(filepath.Dir(inTheWay), 0o700), os.WriteFile(inTheWay, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := try(1); err == nil || !strings.Contains(err.Error(), saved) || s.waiting() != saved {
		t.Errorf("a directory in the way: %v; %q waits", err, s.waiting())
	}
	if err := os.RemoveAll(filepath.Dir(inTheWay)); err != nil {
		t.Fatal(err)
	}
	if err := try(2); err != nil || s.waiting() != "" {
		t.Errorf("the second try: %v; %q waits", err, s.waiting())
	}
	for dir, want := range map[string]uint64{keep: 1, saved: 2} {
		if p, ok, err := executor.ReadProgress(dir); err != nil || !ok || p.Steps != want {
			t.Errorf("%s: %+v, %v, want the state of try %d", dir, p, err, want)
		}
	}
}

// A save that fails for a while is tried again; one that fails for ever ends after SaveLimit, and an error that cannot pass ends it at once.
func TestASaveIsTriedAgain(t *testing.T) {
	full := fault.E(fault.Unavailable, fault.Got("no space"))
	for name, c := range map[string]struct {
		fails int
		err   error
		tries int
		pause time.Duration
	}{
		"passes":    {3, full, 4, 7 * time.Second},
		"too small": {1, fault.E(fault.TooLarge), 2, time.Second},
		"stays":     {1000, full, 7, executor.SaveLimit},
		"permanent": {1000, fault.E(fault.InvalidArgument, fault.Cause(io.ErrShortWrite)), 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			tries, told, began := 0, 0, time.Now()
			err := executor.RetrySave(t.Context(), func() error {
				if tries++; tries <= c.fails {
					return c.err
				}
				return nil
			}, func(error, time.Duration) { told++ })
			if (err == nil) != (c.fails < 1000) || tries != c.tries || told != tries-1 || time.Since(began) != c.pause {
				t.Errorf("%s: %v after %d tries, %d told, in %v", name, err, tries, told, time.Since(began))
			}
		})
	}
}

// The error of a save says where the trained state is.
func TestTheErrorOfASaveNamesTheCheckpoints(t *testing.T) {
	spec := &job.JobSpec{Checkpoints: &job.Checkpoints{Store: "s3://models"}}
	if hint := hintAfter(spec, &job.CheckpointStatus{Name: "line-0007", Steps: 7}); !strings.Contains(hint, "after 7 steps") || !strings.Contains(hint, "edl checkpoint export s3://models@line-0007 ") {
		t.Error(hint)
	}
	if hint := hintAfter(spec, nil); !strings.Contains(hint, "edl checkpoint list s3://models") {
		t.Error(hint)
	}
	if hint := hintAfter(&job.JobSpec{}, nil); !strings.Contains(hint, "--checkpoint") {
		t.Error(hint)
	}
}

// A trainer that is to end pauses no longer for a disk that is full: it would be killed, and leave files behind.
func TestASaveIsNotTriedAgainByOneThatIsToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drain := make(chan struct{})
		dir := t.TempDir()
		s, err := openStorage(executor.Files{}, dir)
		if err != nil {
			t.Fatal(err)
		}
		g := &generationRun{Trainer: &Trainer{caller: caller{drain: drain}, storage: s, cfg: Config{Spec: &job.JobSpec{Save: dir}, Log: slog.New(slog.DiscardHandler)}}}
		began, tries := time.Now(), 0
		err = g.retrySave(t.Context(), func() error {
			if tries++; tries == 2 {
				close(drain)
			}
			return errors.Join(s.begin(), fault.E(fault.Unavailable, fault.Got("no space")))
		})
		if !errors.Is(err, fault.Drained) || tries != 2 || time.Since(began) != time.Second {
			t.Errorf("%v after %d tries in %v", err, tries, time.Since(began))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
			t.Errorf("%v are left, %v", left, err)
		}
	})
}
