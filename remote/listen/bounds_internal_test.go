package listen

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/listen/supervise"
)

// A job may have so much on the disk of its listener, checkpoints and what is written of it together.
func TestCheckDisk(t *testing.T) {
	d := &Data{dir: t.TempDir()}
	j := &Job{ID: "digits", manager: &Manager{cfg: Config{Data: d, MaxDisk: 3 << 20}}}
	write := func(path string) {
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, make([]byte, 2<<20), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(d.store("digits"), "8", "w"))
	write(filepath.Join(d.store("other"), "8", "w"))
	if err := checkDisk(j); err != nil {
		t.Error(err)
	}
	write(filepath.Join(d.runFolder("digits"), "journal.1"))
	err := checkDisk(j)
	if !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "got 4 MiB on disk: 2 of checkpoints, 2 of its events, want at most 3 MiB") {
		t.Error(err)
	}
	j.manager.cfg.MaxDisk = 0
	if err := checkDisk(j); err != nil {
		t.Errorf("without a bound: %v", err)
	}
}

// The time in which a job is suspended does not count, nor that in which its machine has slept. Of two bounds the lower one counts.
func TestCountTime(t *testing.T) {
	for _, c := range []struct {
		own, all time.Duration
		want     string
	}{
		{0, 0, ""},
		{20 * time.Second, 0, "got 21s in which the job has run, want at most 20s; start the job with a higher --max-time"},
		{0, 15 * time.Second, "got 21s in which the job has run, want at most 15s; its listener gives every job so much: --max-job-time"},
		{20 * time.Second, 15 * time.Second, "want at most 15s; its listener"},
		{15 * time.Second, 20 * time.Second, "want at most 15s; start the job"},
		{time.Minute, time.Hour, ""},
	} {
		j := &Job{ID: "digits", manager: &Manager{cfg: Config{MaxTime: c.all}}, spec: &job.JobSpec{MaxTime: durationpb.New(c.own)}}
		j.status = &job.JobStatus{RanMs: 1000}
		run := &jobRun{job: j, machine: supervise.New(supervise.Policy{PServers: 1}, 1)}
		if err := countTime(run, 10*time.Second); err != nil {
			t.Errorf("%v: after 11 seconds %v", c, err)
		}
		err := countTime(run, time.Hour) // of sleep
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, fault.DeadlineExceeded) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c, err, c.want)
		}
	}
}
