package coordinator

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// follower makes tasks of the files that come to datasets which grow while the job runs.
type follower struct {
	*core
	store *store
}

// filesAtOnce bounds the files of one transaction.
const filesAtOnce = 64

// create makes the queues of datasets that grow, which no trainer reports, unless an earlier coordinator has.
func (f *follower) create(ctx context.Context, lead Lead, queues map[string]*queue.Queue) error {
	t := &txn{store: f.store, queues: queues, keys: map[string]bool{}}
	for name := range f.cfg.Follow {
		if queues[name] != nil {
			continue
		}
		if err := t.create(queue.Dataset{Name: name, Following: true}); err != nil {
			return err
		}
	}
	if len(t.changes) == 0 {
		return nil
	}
	return lead.State.Commit(ctx, t.changes)
}

// follow makes tasks of new files until the end of the dataset is marked. Then it logs files that come too late, until the job ends.
func (f *follower) follow(name string, globs []string) {
	files := dataset.NewFollower(globs)
	defer files.Close()
	names := renames{}
	for f.store.current()[name].Following() {
		err := f.look(name, files, names)
		switch {
		case err == nil || f.ctx.Err() != nil:
		case errors.Is(err, fault.Unavailable):
			f.cfg.Log.Warn("files cannot be listed", "dataset", name, "reason", err.Error())
		default:
			f.Fail(err)
		}
		if !f.sleep(f.cfg.FollowEvery) {
			return
		}
	}
	f.logLate(name, files)
}

// logLate names the files, once each, that come after the end of a dataset: they are left out, now and after every restart.
func (f *follower) logLate(name string, files *dataset.Follower) {
	logged := map[string]bool{}
	for more := true; more; more = f.sleep(lateLooks * f.cfg.FollowEvery) {
		listing, err := files.List(f.ctx)
		if err != nil {
			continue // nothing depends on it
		}
		for _, path := range f.unknown(name, listing) {
			if !logged[path] {
				logged[path] = true
				f.cfg.Log.Warn("file is left out: it has come after the end of its dataset", "dataset", name, "file", path)
			}
		}
	}
}

// unknown lists the files that are in no queue yet.
func (f *follower) unknown(name string, listing dataset.Listing) []string {
	known := map[string]bool{}
	for _, file := range f.store.current()[name].Files() {
		known[file.Path] = true
	}
	return slices.DeleteFunc(slices.Clone(listing.Files), func(path string) bool { return known[path] })
}

// renames are files that are not new: by the name that each has now, the one under which the job has taken it up.
type renames map[string]string

// of returns the known file whose content a file has, and which is not there any more; nil where there is none. So a copy is new, and a file that was moved is not.
func (r renames) of(file *rpc.DataFile, known []*rpc.DataFile, listing dataset.Listing) *rpc.DataFile {
	for _, k := range known {
		if sameContent(file, k) && !slices.Contains(listing.Files, k.Path) && !slices.Contains(listing.Writing, k.Path) &&
			!slices.Contains(slices.Collect(maps.Values(r)), k.Path) {
			return k
		}
	}
	return nil
}

// look appends the files that are new, behind those that the job has read before.
func (f *follower) look(name string, files *dataset.Follower, names renames) error {
	listing, err := files.List(f.ctx)
	if err != nil {
		return err
	}
	if err := f.readd(name, files, listing); err != nil {
		return err
	}
	maps.DeleteFunc(names, func(now, _ string) bool { return !slices.Contains(listing.Files, now) })
	unknown := slices.DeleteFunc(f.unknown(name, listing), func(path string) bool { return names[path] != "" })
	for paths := range slices.Chunk(unknown, filesAtOnce) {
		var add queue.FilesAdded
		for _, path := range paths {
			file, err := stat(f.ctx, files, path)
			if errors.Is(err, fault.NotFound) {
				continue // somebody has removed it, before a record of it was handed out
			}
			if err != nil {
				return err
			}
			if was := names.of(file, f.store.current()[name].Files(), listing); was != nil {
				names[path] = was.Path
				f.cfg.Log.Warn("file is not new: the job has taken it up under another name", "dataset", name, "file", path, "as", was.Path)
				continue
			}
			add.Files = append(add.Files, file)
		}
		if len(add.Files) == 0 {
			continue
		}
		if err := f.store.step(name, add); err != nil {
			return err
		}
	}
	if listing.Ended {
		return f.store.step(name, queue.FilesEnded{})
	}
	return nil
}

// stat describes a file.
func stat(ctx context.Context, files *dataset.Follower, path string) (*rpc.DataFile, error) {
	info, err := files.Stat(ctx, path)
	if err != nil {
		return nil, err
	}
	return &rpc.DataFile{Path: info.Path, Records: info.Records, Bytes: info.Bytes, Fingerprint: info.Fingerprint}, nil
}

// readd appends the files that the job has read before it has gone on from a checkpoint, as far as they are not there yet: in their order and in their groups, so that
// each record has the number that the checkpoint knows it by. One that is gone keeps its place if all its records are trained.
func (f *follower) readd(name string, files *dataset.Follower, listing dataset.Listing) error {
	was, q := f.cfg.before(name), f.store.current()[name]
	from := len(q.Files())
	if from >= len(was.GetFiles()) {
		return nil
	}
	places := map[string][]string{}                                   // by name without folder
	for _, p := range slices.Concat(listing.Files, listing.Writing) { // one of an older layout shows only later that it is complete, and it was
		if !slices.ContainsFunc(q.Files(), func(f *rpc.DataFile) bool { return f.Path == p }) {
			places[path.Base(p)] = append(places[path.Base(p)], p)
		}
	}
	left := f.cfg.queuePolicy(f.epoch).Left(recordsOf(was.Files))
	first := recordsOf(was.Files[:from])
	var add queue.FilesAdded
	for i, before := range was.Files[from:] {
		file, err := f.find(files, before, places)
		if err != nil {
			return err
		}
		records := ranges.Range{From: first, To: first + recordsOf([]*rpc.DataFile{before})}
		first = records.To
		if file == nil && len(left.Intersect(ranges.Set{records})) > 0 {
			return fault.E(fault.InvalidArgument, fault.At("dataset "+fault.Quote(name)), fault.Got("no file "+fault.Quote(before.Path)),
				fault.Want(describeFile(before)+", of which the job has not trained all records"),
				fault.Hint("put it back; or begin anew, with --params STORE in place of --resume STORE, or with --from-start"))
		}
		if len(add.Files) == filesAtOnce || len(add.Files) > 0 && slices.Contains(was.Groups, int64(from+i)) {
			if err := f.store.step(name, add); err != nil {
				return err
			}
			add.Files = nil
		}
		add.Files = append(add.Files, cmp.Or(file, before))
	}
	return f.store.step(name, add)
}

// find returns the file that the job has read before, of those with its name, and takes it out of places. A folder may have another place by now. It returns nil where
// no file has that name.
func (f *follower) find(files *dataset.Follower, before *rpc.DataFile, places map[string][]string) (*rpc.DataFile, error) {
	base := path.Base(before.Path)
	var other *rpc.DataFile
	for i, p := range places[base] {
		file, err := stat(f.ctx, files, p)
		if err != nil {
			return nil, err
		}
		if sameFile(file, before) {
			places[base] = slices.Delete(places[base], i, i+1)
			return file, nil
		}
		other = file
	}
	if other == nil {
		return nil, nil
	}
	return nil, fault.E(fault.InvalidArgument, fault.At("file "+fault.Quote(other.Path)), fault.Got(describeFile(other)),
		fault.Want(describeFile(before)+", which the job has read"), fault.Hint("put back the file that the job has read; files that come have other names"))
}

// followEvery is how often datasets that grow are listed where the configuration does not say.
const followEvery = time.Second

// lateLooks is how many times less often a dataset is listed whose end is marked.
const lateLooks = 10
