package listen_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/policy"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/listen"
)

// A fence is a folder that jobs may use, beside one that they may not, and links between them.
type fence struct {
	in, out string
	allowed listen.Allowed
}

func newFence(t *testing.T) fence {
	t.Helper()
	top := t.TempDir()
	f := fence{in: filepath.Join(top, "in"), out: filepath.Join(top, "out")}
	err := errors.Join(os.Mkdir(f.in, 0o755), os.Mkdir(f.out, 0o755), os.WriteFile(filepath.Join(f.out, "file"), []byte("theirs"), 0o600),
		os.Symlink(f.out, filepath.Join(f.in, "link")), os.Symlink("../out/file", filepath.Join(f.in, "linked")))
	if err != nil {
		t.Fatal(err)
	}
	f.allowed = listen.Allowed{Data: &policy.Places{List: []string{f.in}}, Save: &policy.Places{List: []string{filepath.Join(f.in, "models")}}}
	if err := os.Mkdir(filepath.Join(f.in, "models"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(f.out, filepath.Join(f.in, "models", "link")); err != nil {
		t.Fatal(err)
	}
	return f
}

// untouched fails the test if something has changed outside.
func (f fence) untouched(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(f.out)
	b, wrong := os.ReadFile(filepath.Join(f.out, "file"))
	if err != nil || wrong != nil || len(entries) != 1 || string(b) != "theirs" {
		t.Errorf("outside there are %v with %q, %v, %v", entries, b, err, wrong)
	}
}

// samples writes the data of a job of reading into a folder.
func samples(t *testing.T, spec *job.JobSpec, dir string) *job.JobSpec {
	t.Helper()
	spec.Data = nil
	for name, globs := range testkit.Samples(t, dir, 20) {
		spec.Data = append(spec.Data, &job.DataBinding{Dataset: name, Globs: globs})
	}
	return spec
}

// A job that names a place outside of the policy, or a link to it, is refused before any role starts and before anything is written.
func TestPlacesOutsideAreRefused(t *testing.T) {
	f := newFence(t)
	h := newHarness(t, listen.Config{Allowed: f.allowed}, all(idle))
	for name, c := range map[string]struct {
		change func(*job.JobSpec)
		names  string
	}{
		"data":                   {func(s *job.JobSpec) { s.Data[0].Globs = []string{f.out + "/*"} }, "--allow-data"},
		"data behind ..":         {func(s *job.JobSpec) { s.Data[0].Globs = []string{f.in + "/../out/*"} }, "--allow-data"},
		"data of an endpoint":    {func(s *job.JobSpec) { s.Data[0].Globs = []string{"s3://b/x?endpoint=http://127.0.0.1:1"} }, "--allow-data"},
		"data of a file URL":     {func(s *job.JobSpec) { s.Data[0].Globs = []string{"file://" + f.in + "/x"} }, "--allow-data"},
		"params":                 {func(s *job.JobSpec) { s.Params = f.out }, "--allow-data"},
		"params in a bucket":     {func(s *job.JobSpec) { s.Params = "s3://b/model?endpoint=http://127.0.0.1:1" }, "--allow-data"},
		"params behind a link":   {func(s *job.JobSpec) { s.Params = filepath.Join(f.in, "link") }, "through a link"},
		"params in a link":       {func(s *job.JobSpec) { s.Params = filepath.Join(f.in, "linked") }, "through a link"},
		"save":                   {func(s *job.JobSpec) { s.Save = f.out }, "--allow-save"},
		"save to a bucket":       {func(s *job.JobSpec) { s.Save = "s3://models/digits" }, "--allow-save"},
		"save where it may read": {func(s *job.JobSpec) { s.Save = filepath.Join(f.in, "x") }, "--allow-save"},
		"save to a link":         {func(s *job.JobSpec) { s.Save = filepath.Join(f.in, "models", "link") }, "through a link"},
		"save behind a link":     {func(s *job.JobSpec) { s.Save = filepath.Join(f.in, "models", "link", "new") }, "through a link"},
		"save beside":            {func(s *job.JobSpec) { s.Save = "model" }, "working directory"},
		"checkpoint":             {func(s *job.JobSpec) { s.Checkpoints = &job.Checkpoints{Store: f.out} }, "--allow-save"},
		"checkpoint at a link":   {func(s *job.JobSpec) { s.Checkpoints = &job.Checkpoints{Store: filepath.Join(f.in, "models", "link")} }, "through a link"},
		"checkpoint in a bucket": {func(s *job.JobSpec) { s.Checkpoints = &job.Checkpoints{Store: "mem://"} }, "--allow-save"},
		"resume":                 {func(s *job.JobSpec) { s.Resume = f.out + "@3" }, "--allow-data"},
		"resume from a link":     {func(s *job.JobSpec) { s.Resume = filepath.Join(f.in, "link") + "@3" }, "through a link"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := samples(t, reading(t), f.in)
			c.change(spec)
			if j, err := h.Start(bounded(t), spec); !errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("%v, %v", j, err)
			}
			f.untouched(t)
		})
	}
	if n := h.started.Load(); n != 0 {
		t.Errorf("%d roles were started", n)
	}
}

// Roles open what the policy allows and nothing else: a link in the data that leads out ends the job. What a job writes is not for everybody.
func TestRolesKeepThePolicy(t *testing.T) {
	f := newFence(t)
	h := newHarness(t, listen.Config{Allowed: f.allowed}, nil)
	save := filepath.Join(f.in, "models", "m")
	spec := samples(t, reading(t), f.in)
	spec.Save, spec.Checkpoints = save, &job.Checkpoints{Store: filepath.Join(f.in, "models", "checkpoints"), Rounds: 1}
	if err := h.begin(t, spec).Wait(bounded(t)); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(filepath.Join(f.in, "models"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == filepath.Join(f.in, "models") || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o027 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		files++
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("%d files, %v", files, err)
	}

	again := samples(t, reading(t), f.in)
	again.Params = save // the roles load it
	if err := h.begin(t, again).Wait(bounded(t)); err != nil {
		t.Fatal(err)
	}

	outside := samples(t, reading(t), f.out)
	glob := outside.Data[0].Globs[0]
	outside.Data[0].Globs = []string{filepath.Join(f.in, "link", filepath.Base(glob))}
	if err := h.begin(t, outside).Wait(bounded(t)); !errors.Is(err, fault.Denied) && !errors.Is(err, fault.NotFound) {
		t.Errorf("a job whose data lie behind a link: %v", err)
	}
	outside.Data[0].Globs = []string{filepath.Join(f.in, "on*")}
	matches, err := filepath.Glob(glob)
	if err == nil {
		err = os.Symlink(matches[0], filepath.Join(f.in, "one"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := h.begin(t, outside).Wait(bounded(t)); !errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), "through a link") {
		t.Errorf("a job whose data are a link: %v", err)
	}
}

// A listener that other machines reach lets jobs do nothing but what it does for them itself: checkpoints in its data folder.
func TestAnExposedListenerAllowsNothing(t *testing.T) {
	dir := t.TempDir()
	data, err := listen.OpenData(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	h := newHarness(t, listen.Config{Data: data, Allowed: listen.Allowed{Exposed: true}}, nil)
	if _, err := h.Start(bounded(t), reading(t)); !errors.Is(err, fault.Denied) {
		t.Errorf("a job that reads: %v", err)
	}
	fence := newFence(t)
	fence.allowed.Exposed, fence.allowed.Save = true, nil
	h = newHarness(t, listen.Config{Data: data, Allowed: fence.allowed}, nil)
	spec := samples(t, reading(t), fence.in)
	spec.Checkpoints = &job.Checkpoints{Rounds: 1}
	if err := h.begin(t, spec).Wait(bounded(t)); err != nil {
		t.Errorf("a job with checkpoints in the data folder: %v", err)
	}
	spec = samples(t, reading(t), fence.in)
	spec.Save = filepath.Join(dir, "data", "model")
	if _, err := h.Start(bounded(t), spec); !errors.Is(err, fault.Denied) {
		t.Errorf("a model in the data folder: %v", err)
	}
}

// A listener that allows the folder in which its own data folder lies keeps that, and the file of its authority, from jobs: also from those of admins without bounds.
func TestTheDataFolderIsTheListenersOwn(t *testing.T) {
	top := t.TempDir()
	dir, key := filepath.Join(top, "edl"), filepath.Join(top, "keys", "authority.pem")
	data, err := listen.OpenData(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	err = errors.Join(os.Mkdir(filepath.Dir(key), 0o700), os.WriteFile(key, []byte("theirs"), 0o600), os.Symlink("edl", filepath.Join(top, "link")))
	if err != nil {
		t.Fatal(err)
	}
	places := &policy.Places{List: []string{top}}
	for kind, allowed := range map[string]listen.Allowed{"with bounds": {Data: places, Save: places}, "without bounds": {}} {
		allowed.Guarded = []string{key}
		h := newHarness(t, listen.Config{Data: data, Allowed: allowed}, nil)
		for name, change := range map[string]func(*job.JobSpec){
			"save":               func(s *job.JobSpec) { s.Save = dir },
			"save to jobs":       func(s *job.JobSpec) { s.Save = filepath.Join(dir, "jobs") },
			"save above":         func(s *job.JobSpec) { s.Save = top },
			"save behind a link": func(s *job.JobSpec) { s.Save = filepath.Join(top, "link", "new") },
			"save beside a key":  func(s *job.JobSpec) { s.Save = filepath.Dir(key) },
			"checkpoint":         func(s *job.JobSpec) { s.Checkpoints = &job.Checkpoints{Store: filepath.Join(dir, "jobs", "zzz")} },
			"resume":             func(s *job.JobSpec) { s.Resume = filepath.Join(dir, "jobs", "zzz") + "@3" },
			"params":             func(s *job.JobSpec) { s.Params = key },
			"data":               func(s *job.JobSpec) { s.Data[0].Globs = []string{filepath.Join(dir, "audit*")} },
		} {
			spec := samples(t, reading(t), top)
			change(spec)
			if _, err := h.Start(bounded(t), spec); !errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), "the listener itself keeps") {
				t.Errorf("%s, %s: %v", kind, name, err)
			}
		}
		spec := samples(t, reading(t), top)
		spec.Save, spec.Checkpoints = filepath.Join(top, "model"), &job.Checkpoints{Rounds: 1}
		if err := h.begin(t, spec).Wait(bounded(t)); err != nil {
			t.Errorf("%s, a job with checkpoints in the data folder: %v", kind, err)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "jobs")); err != nil || len(entries) > 0 {
		t.Errorf("in the data folder there are %v, %v", entries, err)
	}
}

// Places of one namespace are for its jobs alone, beside those of all.
func TestPlacesOfNamespaces(t *testing.T) {
	a := listen.Allowed{Data: &policy.Places{List: []string{"/all"}}, DataOf: map[string][]string{"ads": {"/data/ads"}}, SaveOf: map[string][]string{"rank": {"/models/rank"}}}
	for _, c := range []struct {
		namespace, path string
		read, write     bool
	}{
		{"ads", "/all/x", true, false}, {"ads", "/data/ads/x", true, false}, {"ads", "/models/rank/x", false, false}, {"ads", "/data/adsx", false, false},
		{"rank", "/all/x", true, false}, {"rank", "/data/ads/x", false, false}, {"rank", "/models/rank/x", true, true},
		{"default", "/all/x", true, false}, {"default", "/data/ads/x", false, false}, {"default", "/models/rank/x", false, false},
	} {
		p := a.Bounds(c.namespace)
		if read, write := p.CheckRead(c.path), p.CheckWrite(c.path); (read == nil) != c.read || (write == nil) != c.write {
			t.Errorf("%s in %s: read %v, write %v", c.path, c.namespace, read, write)
		}
	}
}
