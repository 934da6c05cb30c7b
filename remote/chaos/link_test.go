package chaos_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// links are the proxies of one rig, by the name of what they lead to.
type links struct {
	t      testing.TB
	server *toxiproxy.ApiServer

	mu  sync.Mutex
	all map[string]*toxiproxy.Proxy
}

func newLinks(t testing.TB) *links {
	l := &links{t: t, server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), all: map[string]*toxiproxy.Proxy{}}
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, p := range l.all {
			p.Stop()
		}
	})
	return l
}

// to returns the address of the link called name, which leads to address from now on.
func (l *links) to(name, address string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	listen := "127.0.0.1:0"
	if p := l.all[name]; p != nil {
		if p.Upstream == address {
			return p.Listen
		}
		p.Stop()
	}
	p := toxiproxy.NewProxy(l.server, name, listen, address)
	if err := p.Start(); err != nil {
		l.t.Errorf("link %s: %v", name, err)
		return address
	}
	l.all[name] = p
	return p.Listen
}

// owns reports whether address is that of a link.
func (l *links) owns(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.all {
		if p.Listen == address {
			return true
		}
	}
	return false
}

func (l *links) get(name string) *toxiproxy.Proxy {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[name]
}

// cut drops what is on its way over a link, in both directions, until mend. The connections stay open: nobody is told.
func (l *links) cut(name string) { l.poison(name, `{"type":"timeout","attributes":{"timeout":0}}`) }

// slow delays what goes over a link by some milliseconds, until mend.
func (l *links) slow(name string, milliseconds int) {
	l.poison(name, fmt.Sprintf(`{"type":"latency","attributes":{"latency":%d,"jitter":%d}}`, milliseconds, milliseconds/2))
}

// reset breaks all connections of a link.
func (l *links) reset(name string) {
	l.poison(name, `{"type":"reset_peer","attributes":{"timeout":0}}`)
}

func (l *links) poison(name, toxic string) {
	p := l.get(name)
	if p == nil {
		return // nobody is behind it now
	}
	for _, stream := range []string{"upstream", "downstream"} {
		spec := strings.Replace(toxic, "{", `{"name":"`+stream+`","stream":"`+stream+`",`, 1)
		if _, err := p.Toxics.AddToxicJson(strings.NewReader(spec)); err != nil {
			l.t.Errorf("link %s: %v", name, err)
		}
	}
}

// mend makes a link as it was.
func (l *links) mend(name string) {
	if p := l.get(name); p != nil {
		p.Toxics.ResetToxics(context.Background())
	}
}
