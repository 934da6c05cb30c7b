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

// filesAtOnce bounds the files of one transaction.
const filesAtOnce = 64

// createFollowing makes the queues of datasets that grow, which no trainer reports, unless an earlier coordinator has.
func (s *Server) createFollowing(ctx context.Context, lead Lead, queues map[string]*queue.Queue) error {
	t := &txn{server: s, queues: queues, keys: map[string]bool{}}
	for name := range s.cfg.Follow {
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

// follow makes tasks of the files that come until the end of the dataset is marked, and then tells of those that come too late, until the job ends.
func (s *Server) follow(name string, globs []string) {
	files := dataset.NewFollower(globs)
	defer files.Close()
	for s.copyQueues()[name].Following() {
		err := s.look(name, files)
		switch {
		case err == nil || s.ctx.Err() != nil:
		case errors.Is(err, fault.Unavailable):
			s.cfg.Log.Warn("files cannot be listed", "dataset", name, "reason", err.Error())
		default:
			s.Fail(err)
		}
		if !s.sleep(s.cfg.FollowEvery, true, nil) {
			return
		}
	}
	s.tellLate(name, files)
}

// tellLate names the files, once each, that come after the end of a dataset: they are left out, now and after every restart.
func (s *Server) tellLate(name string, files *dataset.Follower) {
	told := map[string]bool{}
	for more := true; more; more = s.sleep(lateLooks*s.cfg.FollowEvery, true, nil) {
		listing, err := files.List(s.ctx)
		if err != nil {
			continue // nothing depends on it
		}
		for _, path := range s.unknown(name, listing) {
			if !told[path] {
				told[path] = true
				s.cfg.Log.Warn("file is left out: it has come after the end of its dataset", "dataset", name, "file", path)
			}
		}
	}
}

// unknown lists the files that are in no queue yet.
func (s *Server) unknown(name string, listing dataset.Listing) []string {
	known := map[string]bool{}
	for _, f := range s.copyQueues()[name].Files() {
		known[f.Path] = true
	}
	return slices.DeleteFunc(listing.Files, func(path string) bool { return known[path] })
}

// look appends the files that are new.
func (s *Server) look(name string, files *dataset.Follower) error {
	listing, err := files.List(s.ctx)
	if err != nil {
		return err
	}
	for paths := range slices.Chunk(s.unknown(name, listing), filesAtOnce) {
		var add queue.FilesAdded
		for _, path := range paths {
			info, err := files.Stat(s.ctx, path)
			if err != nil {
				return err
			}
			add.Files = append(add.Files, &rpc.DataFile{Path: info.Path, Records: info.Records, Bytes: info.Bytes, Fingerprint: info.Fingerprint})
		}
		if err := s.happen(name, add); err != nil {
			return err
		}
	}
	if listing.Ended {
		return s.happen(name, queue.FilesEnded{})
	}
	return nil
}

// happen lets an event of the coordinator's own happen to a queue.
func (s *Server) happen(name string, e queue.Event) error {
	return s.transact(s.ctx, func(t *txn) error {
		_, err := t.step(name, e)
		return err
	})
}

// followEvery is how often datasets that grow are listed where the configuration does not say.
const followEvery = time.Second

// lateLooks is how many times less often a dataset is listed whose end is marked.
const lateLooks = 10
