package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote"
)

// Listeners of this user on this machine are listed in a directory, one file each, so that commands find them. A file proves nothing: whoever
// reads it asks the listener, and one that refuses is gone.

// findTime bounds the wait for the listeners that are listed.
const findTime = time.Second

// maxListed bounds what is read of the directory: entries, and bytes of each.
const (
	maxListed      = 100
	maxListedBytes = 4 << 10
)

// A listedListener is the content of a file.
type listedListener struct {
	Address string `json:"address"`
	PID     int    `json:"pid"`
}

// listenersDir is where the files are: what the system clears when the user logs out, else the user's cache.
func listenersDir() (string, error) {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		var err error
		if dir, err = os.UserCacheDir(); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "edl", "listeners"), nil
}

// announce lists a listener of this process, and returns what takes it off the list. A machine without a place for the list has none:
// --listener still works.
func announce(address string) (withdraw func()) {
	dir, err := listenersDir()
	if err != nil || os.MkdirAll(dir, 0o700) != nil {
		return func() {}
	}
	b, err := json.Marshal(listedListener{address, os.Getpid()})
	if err != nil {
		return func() {}
	}
	path := filepath.Join(dir, strings.NewReplacer(":", "_", "/", "_").Replace(address)+".json")
	temporary := path + ".new"
	if os.WriteFile(temporary, b, 0o600) != nil || os.Rename(temporary, path) != nil {
		_ = os.Remove(temporary)
		return func() {}
	}
	return func() { _ = os.Remove(path) }
}

// listed returns the listeners that answer. Files of those that refuse are removed, when the process that wrote them is gone.
func listed(ctx context.Context) (clients []*remote.Client, err error) {
	dir, err := listenersDir()
	if err != nil {
		return nil, nil
	}
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fileFault(dir, err)
	}
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, file := range files[:min(len(files), maxListed)] {
		path := filepath.Join(dir, file.Name())
		entry, ok := readListed(path)
		if !ok {
			continue
		}
		group.Go(func() {
			client, err := remote.Dial(ctx, entry.Address)
			if err != nil {
				if errors.Is(err, fault.Unavailable) && processGone(entry.PID) {
					_ = os.Remove(path)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			clients = append(clients, client)
		})
	}
	group.Wait()
	slices.SortFunc(clients, func(a, b *remote.Client) int { return strings.Compare(a.Address(), b.Address()) })
	return clients, nil
}

func readListed(path string) (entry listedListener, ok bool) {
	if filepath.Ext(path) != ".json" {
		return entry, false
	}
	f, err := os.Open(path)
	if err != nil {
		return entry, false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxListedBytes))
	return entry, err == nil && json.Unmarshal(b, &entry) == nil && entry.Address != ""
}

// processGone reports whether no process has an id.
func processGone(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return true
	}
	return errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
