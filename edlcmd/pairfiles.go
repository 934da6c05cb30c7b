package edlcmd

import (
	"crypto/tls"
	"os"
	"sync"
	"time"
)

// pairFiles are files with a certificate and its key, which somebody may replace while a server shows them. It is safe for concurrent use.
type pairFiles struct {
	certificate, key string

	mu   sync.Mutex
	pair *tls.Certificate
	read [2]fileState // of the files, when the pair was read
}

// fileState tells one content of a file from the next.
type fileState struct {
	size    int64
	changed time.Time
}

// states is what the files are now; false: one of them is not there.
func (p *pairFiles) states() (now [2]fileState, there bool) {
	for i, path := range []string{p.certificate, p.key} {
		info, err := os.Stat(path)
		if err != nil {
			return now, false
		}
		now[i] = fileState{info.Size(), info.ModTime()}
	}
	return now, true
}

// load reads the files.
func (p *pairFiles) load() error {
	now, _ := p.states() // before they are read, so that a change meanwhile is seen later
	pair, err := tls.LoadX509KeyPair(p.certificate, p.key)
	if err != nil {
		return err
	}
	p.pair, p.read = &pair, now
	return nil
}

// get is tls.Config.GetCertificate. Files that have changed and are no pair, as while they are being replaced, leave the last pair in place.
func (p *pairFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now, there := p.states(); there && now != p.read {
		_ = p.load()
	}
	return p.pair, nil
}
