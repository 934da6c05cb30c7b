package listen

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/filelock"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/jobspec"
)

// A Data is the data folder of a listener, which outlives it:
//
//	audit.jsonl                 who has asked for what, as audit.go says
//	lock                        held by the listener that uses the folder
//	jobs/NAME/job               a state.KeptJob: what is needed to resume the job
//	jobs/NAME/checkpoints/...   its checkpoints, unless it names a place for them
//	runs/NAME/...               its journal, for the listener that takes it over: see journal
//	keeper, keeper.*            the keeper of its processes, which holds a lock of its own
//	pods/RUN/...                logs of jobs whose roles are pods
//	states/kept/...             kept states, where jobs outlive the listener: see lasting.go
//	states/...                  what jobs begin with, unpacked, and other kept states, where roles are on other machines
//
// A job has its folder from its start on. It is removed when the job succeeds, unless its last checkpoint is all that is left of what it has trained; when another
// job of its name starts that does not resume it; and when it is one of the oldest beyond the number of jobs that a listener remembers.
type Data struct {
	dir   string
	lock  *os.File
	audit *audit
}

const jobsFolder = "jobs"

// States is the folder for Config.StateDir, where roles on other machines reach the data folder. It makes the folder where it is missing.
func (d *Data) States() (string, error) {
	dir := d.states()
	return dir, fault.Wrap(fault.Unavailable, dir, os.MkdirAll(dir, 0o700))
}

func (d *Data) states() string { return filepath.Join(d.dir, "states") }

// jobFile is the file of a job in its folder.
const jobFile = "job"

// OpenData opens the data folder of a listener, and makes it where it is missing. Another listener cannot open it until Close.
func OpenData(dir string) (*Data, error) {
	return openData(dir, func(*os.File) error {
		return fault.E(fault.InvalidArgument, fault.At(dir), fault.Got("the data folder of another listener that runs"), fault.Want("a folder of its own"),
			fault.Hint("name one with --data-dir, or wait for the end of the other with --wait"))
	})
}

// lockPause is how often a listener that waits tries to lock its data folder.
const lockPause = 100 * time.Millisecond

// AwaitData is OpenData for a listener that waits while another one has the folder, however long. It calls waits once if it has to.
func AwaitData(ctx context.Context, dir string, waits func()) (*Data, error) {
	return openData(dir, func(f *os.File) error {
		if !filelock.Supported {
			return fault.E(fault.Unsupported, fault.At(dir), fault.Got("a system without locks of files"), fault.Want("one where a listener can wait for another"))
		}
		waits()
		every := time.NewTicker(lockPause)
		defer every.Stop()
		for {
			select {
			case <-every.C:
			case <-ctx.Done():
				return fault.Wrap(fault.KindOf(context.Cause(ctx)), dir, context.Cause(ctx))
			}
			if filelock.Try(f) == nil {
				return nil
			}
		}
	})
}

// openData opens a data folder. When another listener has it, it asks locked, which returns nil once it has locked the file.
func openData(dir string, locked func(*os.File) error) (*Data, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, jobsFolder), 0o700)
	}
	if err != nil {
		return nil, fault.File(fault.Unavailable, dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.File(fault.Unavailable, dir, err)
	}
	if filelock.Supported && filelock.Try(f) != nil {
		if err := locked(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	a, err := openAudit(dir)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Data{dir: dir, lock: f, audit: a}, nil
}

// Close lets another listener use the folder.
func (d *Data) Close() error { return errors.Join(d.audit.close(), d.lock.Close()) }

// Dir is the folder, as an absolute path.
func (d *Data) Dir() string { return d.dir }

// folder is the folder of a job.
func (d *Data) folder(id string) string { return filepath.Join(d.jobs(), id) }

// store is where a job has its checkpoints that names no place for them.
func (d *Data) store(id string) string { return filepath.Join(d.folder(id), "checkpoints") }

// keep makes the folder of a job that starts. It removes what an earlier job of the name has left, unless the job goes on from there.
func (d *Data) keep(id string, k *state.KeptJob) error {
	b, err := proto.Marshal(k)
	if err != nil {
		return fault.Wrap(fault.Internal, "job "+id, err)
	}
	dir := d.folder(id)
	if k.Continues != id {
		if err := os.RemoveAll(dir); err != nil {
			return fault.File(fault.Unavailable, dir, err)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.File(fault.Unavailable, dir, err)
	}
	return d.write(id, b)
}

// write replaces the file of a job.
func (d *Data) write(id string, b []byte) error {
	return replaceFile(filepath.Join(d.folder(id), jobFile), b)
}

// replaceFile writes a file as a whole: a listener that dies meanwhile leaves the one before.
func replaceFile(path string, b []byte) error {
	err := os.WriteFile(path+".new", b, 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fault.File(fault.Unavailable, path, err)
	}
	return nil
}

// read returns what is kept of a job.
func (d *Data) read(id string) (*state.KeptJob, error) {
	unknown := fault.E(fault.NotFound, fault.Got("job "+fault.Quote(id)), fault.Want("a job in the data folder "+d.dir),
		fault.Hint("it keeps jobs that have not succeeded, and made checkpoints there; what a job has saved is read with --params"))
	if !jobspec.IsID(id) {
		return nil, unknown
	}
	path := filepath.Join(d.folder(id), jobFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, unknown
	}
	if err != nil {
		return nil, fault.File(fault.Unavailable, path, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSpec+1))
	k := &state.KeptJob{}
	if err == nil && len(b) > maxSpec {
		err = errors.New("too long")
	}
	if err == nil {
		err = proto.Unmarshal(b, k)
	}
	if err == nil && k.Spec == nil {
		err = errors.New("no job")
	}
	if err != nil {
		return nil, fault.File(fault.Corrupt, path, err)
	}
	return k, nil
}

// remove removes the folder of a job, and of those that it has continued and that do not run again.
func (d *Data) remove(id string, runs func(id string) bool) error {
	for range maxContinued {
		k, err := d.read(id)
		if err := os.RemoveAll(d.folder(id)); err != nil {
			return fault.File(fault.Unavailable, d.folder(id), err)
		}
		if err != nil || k.Continues == "" || k.Continues == id || !jobspec.IsID(k.Continues) || runs(k.Continues) {
			break
		}
		id = k.Continues
	}
	return nil
}

// maxContinued bounds a chain of jobs that resume each other.
const maxContinued = 64

// trim removes the folders of the oldest jobs that do not run, beyond a number in each namespace, and beyond maxNamespaces times that number in all.
func (d *Data) trim(runs func(id string) bool, most int) error {
	entries, err := os.ReadDir(d.jobs())
	if err != nil {
		return fault.File(fault.Unavailable, d.dir, err)
	}
	type kept struct {
		id string
		at time.Time
	}
	var list []kept
	for _, e := range entries {
		if info, err := e.Info(); err == nil && !runs(e.Name()) {
			list = append(list, kept{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(list, func(a, b kept) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.id, b.id)) })
	of := map[string]int{}
	for i, k := range list {
		namespace := jobspec.NamespaceOf(k.id)
		if of[namespace]++; of[namespace] <= most && i < maxNamespaces*most {
			continue
		}
		if err := os.RemoveAll(d.folder(k.id)); err != nil {
			return fault.File(fault.Unavailable, d.folder(k.id), err)
		}
	}
	return nil
}

// defaultCheckpoints gives a job a place for checkpoints in the data folder if it names none, and reports whether it has done so. A folder that cannot be
// written to is no reason to refuse a job that says nothing of checkpoints. A job that says how often they are made must have a place for them.
func (m *Manager) defaultCheckpoints(ctx context.Context, id string, spec *job.JobSpec, p *program.Program) (own bool, err error) {
	c := spec.Checkpoints
	if c.GetNone() {
		spec.Checkpoints = nil
	}
	if c.GetNone() || c.GetStore() != "" {
		return false, nil
	}
	noPlace := func(got, want string) error {
		return fault.E(fault.InvalidArgument, fault.At("job "+id), fault.Got("checkpoints without a place, "+got), fault.Want(want))
	}
	switch {
	case m.cfg.Data == nil:
		err = noPlace("at a listener without a data folder", "--checkpoint STORE, or a listener with --data-dir")
	case spec.Fed:
		err = noPlace("of a job that is fed", "--checkpoint STORE")
	case !executor.Trains(p):
		err = noPlace("of a program that trains nothing", "a program that trains, or no checkpoints")
	default:
		place := &job.Checkpoints{Store: m.cfg.Data.store(id)}
		if err = prepareStore(ctx, place); err == nil {
			spec.Checkpoints = cmp.Or(c, place)
			spec.Checkpoints.Store = place.Store
			jobspec.Complete(spec)
			return true, nil
		}
		if c == nil {
			m.cfg.Log.Warn("the job makes no checkpoints in the data folder", "job", id, "error", err)
		}
	}
	if c == nil {
		err = nil
	}
	return false, err
}

// remember makes the folder of a job that starts. m.mu is held.
func (m *Manager) remember(j *Job, k *state.KeptJob) {
	if m.cfg.Data == nil || j.spec.Checkpoints == nil {
		return
	}
	k.Run = j.name
	if err := m.cfg.Data.keep(j.ID, k); err != nil {
		m.cfg.Log.Warn("the job cannot be resumed by its name", "job", j.ID, "error", err)
	}
	runs := func(id string) bool { return m.jobs[id] != nil && !m.jobs[id].Ended() }
	if err := m.cfg.Data.trim(runs, m.cfg.MaxJobs); err != nil {
		m.cfg.Log.Warn("data of old jobs are left", "error", err)
	}
}

// rememberServers notes how many pservers a job has that runs: so many it has when it is resumed.
func (m *Manager) rememberServers(j *Job, servers int) {
	if m.cfg.Data == nil || j.spec.Checkpoints == nil {
		return
	}
	k, err := m.cfg.Data.read(j.ID)
	if err == nil {
		k.Spec.Pservers = int32(servers)
		var b []byte
		if b, err = proto.Marshal(k); err == nil {
			err = m.cfg.Data.write(j.ID, b)
		}
	}
	if err != nil {
		m.cfg.Log.Warn("the job will be resumed with an earlier number of pservers", "job", j.ID, "error", err)
	}
}

// succeeded refuses to resume a job that has trained all, and says what else leads to its model.
func succeeded(id, hint string) error {
	return fault.E(fault.InvalidArgument, fault.At("job "+id), fault.Got("a job that has succeeded"), fault.Want("one that was stopped or has failed"), fault.Hint(hint))
}

// Resume lets a job go on that a user has suspended. It starts a job again that has ended before its time, as another job, from its last checkpoint; where it has made none, from the one that it began with.
// Numbers of roles that are not 0 replace those of the job, and so does a directory to save to. A job without one ends with a checkpoint, which stays.
func (m *Manager) Resume(ctx context.Context, r *rpc.ResumeJobRequest) (*Job, error) {
	id := r.Job
	namespace := jobspec.NamespaceOf(id)
	if !callerOf(ctx).sees(namespace) {
		return nil, fault.E(fault.NotFound, fault.Got("job "+fault.Quote(id)), fault.Want("a job that the listener keeps"))
	}
	if j, err := m.Job(id); err == nil && !j.Ended() {
		if err := callerOf(ctx).mayAct(namespace, j.owner, "job "+id); err != nil {
			return nil, err
		}
		if r.Trainers == 0 && r.TrainersMax == 0 && r.Pservers == 0 && r.Save == "" && resumeHeld(j) {
			return j, nil
		}
	}
	if m.cfg.Data == nil {
		return nil, fault.E(fault.InvalidArgument, fault.At("job "+id), fault.Got("a listener without a data folder"), fault.Want("one with --data-dir"),
			fault.Hint("submit the job again, with --resume STORE"))
	}
	if j, err := m.Job(id); err == nil {
		if err := callerOf(ctx).mayAct(namespace, j.owner, "job "+id); err != nil {
			return nil, err
		}
	}
	if m.runs(id) {
		return nil, fault.E(fault.InvalidArgument, fault.At("job "+id), fault.Got("a job that runs, or stands in the job queue"), fault.Want("one that was stopped, has failed, or was suspended by a user"),
			fault.Hint("one that was suspended goes on as it is: give no numbers and no --save"))
	}
	k, err := m.cfg.Data.read(id)
	if err == nil {
		err = callerOf(ctx).mayAct(namespace, k.Owner, "job "+id)
	}
	if j, known := m.Job(id); errors.Is(err, fault.NotFound) && known == nil && j.Status().State == job.State_SUCCEEDED {
		return nil, succeeded(id, "\"edl run PROGRAM --params DIR\" trains on with what it has saved to DIR") // its folder is gone
	}
	if err != nil {
		return nil, err
	}
	spec := k.Spec
	spec.Namespace = namespace // an earlier build has kept none
	store := spec.Checkpoints.GetStore()
	if k.OwnStore {
		store, spec.Checkpoints.Store = m.cfg.Data.store(id), ""
	}
	if spec.Fed {
		return nil, fault.E(fault.InvalidArgument, fault.At("job "+id), fault.Got("a job that was fed"), fault.Want("one that reads its own data"),
			fault.Hintf("its checkpoints are in %s: a program that feeds them goes on there", store))
	}
	if k.Ended.GetState() == job.State_SUCCEEDED {
		return nil, succeeded(id, "\"edl checkpoint export "+store+" -o DIR\" writes what it has trained")
	}
	if spec.Resume, err = lastOf(ctx, store, k.Run, spec.Resume); err != nil {
		return nil, err
	}
	if r.Trainers > 0 {
		spec.Trainers, spec.TrainersMax = r.Trainers, max(r.Trainers, r.TrainersMax)
	}
	spec.Pservers, spec.Save = cmp.Or(r.Pservers, spec.Pservers), cmp.Or(r.Save, spec.Save)
	spec.Checkpoints.Last = spec.Save == ""
	spec.Params, spec.State, spec.KeepState, spec.MaxAhead = "", "", false, 0 // nobody follows it
	if spec.Evaluation != nil {
		spec.Evaluation.Waits = false
	}
	return m.start(ctx, spec, id)
}

// runs reports whether a job runs.
func (m *Manager) runs(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.jobs[id] != nil && !m.jobs[id].Ended()
}

// lastOf is the address of the last checkpoint of a run. A run that has none has that of the checkpoint that it began with; empty: it began with none. That one
// is looked for among those of the run first, because a data folder may have moved.
func lastOf(ctx context.Context, where, run, began string) (string, error) {
	store, err := checkpoint.Open(ctx, where)
	if err != nil {
		return "", err
	}
	defer store.Close()
	list, err := store.List(ctx)
	if err != nil {
		return "", err
	}
	for _, e := range list { // the newest of a run first
		if e.Complete && e.Run == run {
			return where + "@" + e.Name, nil
		}
	}
	for _, e := range list {
		if e.Complete && strings.HasSuffix(began, "@"+e.Name) {
			return where + "@" + e.Name, nil
		}
	}
	none := fault.E(fault.NotFound, fault.At(where), fault.Got("no complete checkpoint of the job"), fault.Want("one"),
		fault.Hint("submit the job again: it has ended before its first checkpoint"))
	if began == "" {
		return "", none
	}
	c, err := checkpoint.Find(ctx, began)
	if errors.Is(err, fault.NotFound) {
		none.Got += ", and the one that it began with is gone: " + began
		return "", none
	}
	if err != nil {
		return "", err
	}
	return c.Address(), c.Close()
}
