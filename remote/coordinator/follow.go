package coordinator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
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
	for f.store.current()[name].Following() {
		err := f.look(name, files)
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
	return slices.DeleteFunc(listing.Files, func(path string) bool { return known[path] })
}

// look appends the files that are new.
func (f *follower) look(name string, files *dataset.Follower) error {
	listing, err := files.List(f.ctx)
	if err != nil {
		return err
	}
	for paths := range slices.Chunk(f.unknown(name, listing), filesAtOnce) {
		var add queue.FilesAdded
		for _, path := range paths {
			info, err := files.Stat(f.ctx, path)
			if err != nil {
				return err
			}
			add.Files = append(add.Files, &rpc.DataFile{Path: info.Path, Records: info.Records, Bytes: info.Bytes, Fingerprint: info.Fingerprint})
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

// followEvery is how often datasets that grow are listed where the configuration does not say.
const followEvery = time.Second

// lateLooks is how many times less often a dataset is listed whose end is marked.
const lateLooks = 10
