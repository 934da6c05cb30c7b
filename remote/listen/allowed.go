package listen

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/edl-go/edl/internal/policy"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/jobspec"
)

// Allowed is what a listener lets jobs read and write.
type Allowed struct {
	// Data and Save are what it lets all jobs read and write. If both are nil, jobs of admins may do what the user of the listener may, and others nothing but what
	// the listener does for them: checkpoints in its data folder, and states.
	Data, Save *policy.Places
	// DataOf and SaveOf are, by namespace, what jobs of it may read and write beside that. Data or Save is not nil where one of them says something.
	DataOf, SaveOf map[string][]string
	// Exposed says that other machines reach the listener: admins are bounded as others are.
	Exposed bool
	// Guarded are files and folders of the listener that no job reads or writes, such as that of its authority. The data folder is one without being named.
	Guarded []string
}

// of returns what a job of a caller in a namespace may read and write; nil: all that the listener may.
func (a Allowed) of(c caller, namespace string) *policy.Policy {
	return a.unguarded(c, namespace).Guard(a.Guarded...)
}

func (a Allowed) unguarded(c caller, namespace string) *policy.Policy {
	if a.Data == nil && a.Save == nil && !a.Exposed && c.access.Covers(credential.Admin) {
		return nil
	}
	if p := a.Bounds(namespace); p != nil {
		return p
	}
	return &policy.Policy{}
}

// Bounds is what all jobs of a namespace may read and write, less what is guarded; nil: that depends on who submits them.
func (a Allowed) Bounds(namespace string) *policy.Policy {
	if a.Data == nil && a.Save == nil {
		return nil
	}
	p := &policy.Policy{}
	if a.Data != nil {
		p.Read = *a.Data
	}
	if a.Save != nil {
		p.Write = *a.Save
	}
	p.Read.List = slices.Concat(p.Read.List, a.DataOf[namespace])
	p.Write.List = slices.Concat(p.Write.List, a.SaveOf[namespace])
	return p
}

// checkPlaces refuses a job that names a place outside of a policy.
func checkPlaces(allowed *policy.Policy, spec *job.JobSpec, resumed bool) error {
	if allowed == nil {
		return nil
	}
	for _, d := range slices.Concat(spec.Data, spec.Evaluation.GetData()) {
		for _, glob := range d.Globs {
			if err := allowed.CheckRead(glob); err != nil {
				return err
			}
		}
	}
	for _, c := range []struct {
		place string
		check func(string) error
	}{{spec.Params, allowed.CheckRead}, {spec.Save, allowed.CheckWrite}, {spec.Checkpoints.GetStore(), allowed.CheckWrite}} {
		if c.place == "" {
			continue
		}
		if err := c.check(c.place); err != nil {
			return err
		}
	}
	if spec.Resume == "" || resumed {
		return nil
	}
	return allowed.CheckRead(checkpoint.StoreOf(spec.Resume))
}

// beginsWithOurs reports whether a job begins with what a job has left in the data folder: one that is resumed by its name, or one without bounds that names such a store.
func beginsWithOurs(m *Manager, allowed *policy.Policy, spec *job.JobSpec, continues string) bool {
	if continues != "" || spec.Resume == "" || m.cfg.Data == nil || !allowed.ReadsAll() {
		return continues != ""
	}
	return isOurStore(m, checkpoint.StoreOf(spec.Resume))
}

// isOurStore reports whether a path is where a job has its checkpoints that names no place for them.
func isOurStore(m *Manager, path string) bool {
	store, err := filepath.Abs(path)
	return err == nil && path != "" && m.cfg.Data != nil && store == m.cfg.Data.store(filepath.Base(filepath.Dir(store)))
}

// checkFiles refuses a job whose data are not there, where its roles run on this machine, so that it tells the same. It looks at nothing that the caller's jobs may
// not read.
func checkFiles(ctx context.Context, m *Manager, spec *job.JobSpec) error {
	by := callerOf(ctx)
	namespace, err := by.home(spec.Namespace)
	if err != nil { // Start says so
		return nil
	}
	allowed := m.cfg.Allowed.of(by, namespace)
	if m.cfg.Spread || checkPlaces(allowed, spec, beginsWithOurs(m, allowed, spec, "")) != nil { // Start says what it may not name
		return nil
	}
	return jobspec.CheckFiles(policy.With(ctx, allowed), spec)
}

// jobs is where the data folder has what jobs leave.
func (d *Data) jobs() string { return filepath.Join(d.dir, jobsFolder) }
