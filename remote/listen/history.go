package listen

import (
	"context"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/jobspec"
)

// This file is for the jobs that have ended. A listener remembers the last ones of each namespace, with their events and logs, as long as neither their number there (Config.MaxJobs) nor
// the bytes that all have in its data folder (Config.MaxJobBytes) are too many. So one namespace pushes out no job of another: where all together are too many, the namespace that has the
// most gives way. The next listener with the folder remembers the same ones.

// defaultJobBytes bounds what jobs that have ended have in the data folder where Config says nothing.
const defaultJobBytes = 4 << 30

// maxPattern bounds the pattern of a ListRequest.
const maxPattern = 256

// maxNamespaces bounds what all namespaces have together: so many times what one may have. The number of namespaces has no bound.
const maxNamespaces = 16

// forget drops the oldest jobs that have ended, until there is room for more jobs in a namespace and the bytes of those that stay are within bounds. m.mu is held.
func (m *Manager) forget(namespace string, more int) {
	for {
		id := tooMuch(m, namespace, more)
		if id == "" {
			return
		}
		forgetRun(m, id)
		delete(m.jobs, id)
		m.order = slices.DeleteFunc(m.order, func(o string) bool { return o == id })
	}
}

// tooMuch is the job that has to be forgotten first; empty: none. m.mu is held.
func tooMuch(m *Manager, namespace string, more int) string {
	var all int64
	jobs, ended, bytes := map[string]int{namespace: more}, map[string]int{}, map[string]int64{} // by namespace
	oldest := map[string]string{}                                                               // that has ended
	for _, id := range m.order {
		j, of := m.jobs[id], jobspec.NamespaceOf(id)
		jobs[of]++
		all += j.written
		if !j.Ended() {
			continue
		}
		ended[of]++
		bytes[of] += j.written
		if oldest[of] == "" {
			oldest[of] = id
		}
	}
	for of, n := range jobs {
		if n > m.cfg.MaxJobs && oldest[of] != "" {
			return oldest[of]
		}
	}
	switch {
	case len(m.order)+more > maxNamespaces*m.cfg.MaxJobs:
		return oldest[most(ended)]
	case all > m.cfg.MaxJobBytes:
		return oldest[most(bytes)]
	}
	return ""
}

// most is the namespace that has the most of something, and of several the first by name; empty: there is none.
func most[N int | int64](of map[string]N) (namespace string) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if namespace == "" || of[name] > of[namespace] {
			namespace = name
		}
	}
	return namespace
}

// noteEnd counts what a job that has ended has in the data folder, and forgets what is too much then.
func noteEnd(m *Manager, j *Job) {
	var bytes int64
	if j.journal != nil {
		bytes = bytesBelow(j.journal.dir)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.jobs[j.ID] == j {
		j.written = bytes
		m.forget("", 0)
	}
}

// bytesBelow adds up the files in a folder. What cannot be read counts nothing: it is about to go.
func bytesBelow(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}

// List tells how far jobs are, those that were submitted first before the others.
func (s *Server) List(ctx context.Context, m *rpc.ListRequest) (*rpc.ListResponse, error) {
	if _, err := path.Match(m.Name, ""); err != nil || len(m.Name) > maxPattern || m.Limit < 0 {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("the pattern %s and the limit %d", fault.Quote(m.Name), m.Limit), fault.Want("a name or a pattern such as mnist-*, and a limit of 0 or more"))
	}
	r, by := &rpc.ListResponse{}, callerOf(ctx)
	for _, j := range s.Manager.Jobs() {
		if status := j.Status(); by.sees(jobspec.NamespaceOf(j.ID)) && fits(m, status) {
			status.Resumable = mayResume(ctx, s.Manager, j, false)
			r.Jobs = append(r.Jobs, status)
		}
	}
	if n := int(m.Limit); n > 0 && len(r.Jobs) > n {
		r.Jobs = r.Jobs[len(r.Jobs)-n:]
	}
	return r, nil
}

func matches(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok
}

// fits reports whether a job is wanted.
func fits(m *rpc.ListRequest, s *job.JobStatus) bool {
	if m.Name != "" && !matches(m.Name, s.Job) && !matches(m.Name, jobspec.NameOf(s.Job)) {
		return false
	}
	for key, value := range m.Labels {
		if have, ok := s.Labels[key]; !ok || have != value {
			return false
		}
	}
	return (len(m.States) == 0 || slices.Contains(m.States, s.State)) && (m.Owner == "" || m.Owner == s.Owner) && (m.Namespace == "" || m.Namespace == jobspec.NamespaceOf(s.Job))
}
