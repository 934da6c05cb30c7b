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
	if left, err := checkDisk(j); err != nil || left != 1<<20 {
		t.Errorf("%d bytes left: %v", left, err)
	}
	write(filepath.Join(d.runFolder("digits"), "journal.1"))
	_, err := checkDisk(j)
	if !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "got 4.00 MiB on disk: 2.00 of checkpoints, 2.00 of its events, want at most 3 MiB") {
		t.Error(err)
	}
	j.manager.cfg.MaxDisk = 0
	if (&diskWatch{job: j}).bounded() {
		t.Error("a job without a bound is looked at")
	}
}

// A job that has reached a bound is said to go on from its last checkpoint where it may have one.
func TestJobGoesOnWhereItMay(t *testing.T) {
	d := &Data{dir: t.TempDir()}
	store := d.store("digits")
	if err := os.MkdirAll(store, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.folder("digits"), jobFile), []byte("job"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := &Job{ID: "digits", manager: &Manager{cfg: Config{Data: d}}, spec: &job.JobSpec{Checkpoints: &job.Checkpoints{Store: store}}}
	if hint := goOnFrom(j); hint != "" {
		t.Errorf("a job without a checkpoint: %q", hint)
	}
	if err := os.WriteFile(filepath.Join(store, "manifest"), []byte("8"), 0o600); err != nil {
		t.Fatal(err)
	}
	if hint := goOnFrom(j); !strings.Contains(hint, "edl jobs resume digits") {
		t.Errorf("a job with a checkpoint: %q", hint)
	}
}

// The files of a job are added up soon when its disk fills, and otherwise seldom: a large tree is not walked all the time.
func TestDiskIsLookedAtAsItFills(t *testing.T) {
	const mib = 1 << 20
	began := time.Now()
	for name, c := range map[string]struct {
		took    time.Duration // by the last look, which found 20 MiB left
		after   time.Duration
		filled  []int64 // MiB by which the file system has filled, one after the other
		unknown bool
		want    bool
	}{
		"nothing is written":           {after: 9 * time.Second, filled: []int64{0, 0}},
		"ten seconds are over":         {after: 10 * time.Second, want: true},
		"it fills":                     {after: 100 * time.Millisecond, filled: []int64{2, 3}, want: true},
		"it fills slowly":              {after: 9 * time.Second, filled: []int64{2, 2}},
		"space is given back as well":  {after: time.Second, filled: []int64{3, -100, 2}, want: true},
		"a large tree":                 {took: time.Second, after: 9 * time.Second, filled: []int64{50}},
		"a tree that takes very long":  {took: time.Minute, after: time.Minute, filled: []int64{50}},
		"nobody knows how full it is":  {after: 100 * time.Millisecond, unknown: true, want: true},
		"nor for a large tree at once": {took: time.Second, after: time.Second, unknown: true},
	} {
		free := int64(1000 * mib)
		w := &diskWatch{looked: began, took: c.took, last: free, left: 20 * mib}
		due := false
		for _, n := range append(c.filled, 0) {
			free -= n * mib
			due = w.due(began.Add(c.after), free, !c.unknown)
		}
		if due != c.want {
			t.Errorf("%s: looked at %t, want %t", name, due, c.want)
		}
	}
	if !(&diskWatch{}).due(began, 0, false) {
		t.Error("the first look does not come at once")
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
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c, err, c.want)
		}
	}
}
