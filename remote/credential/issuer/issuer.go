// Package issuer takes the tokens of an OpenID Connect issuer, such as the single sign-on of a company, for those of users of a listener. A token is a JWT that the
// issuer has signed. What it says of its user, a claim, becomes the name, and its groups become roles:
//
//	token --> signature, by a key that the issuer publishes --> issuer, audience, time --> user, and the roles of its groups
//
// The issuer is asked for what it publishes when an Issuer is opened, and for its keys when a token is signed by one that is not known yet.
package issuer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
)

// Config says whose tokens count, and for what.
type Config struct {
	URL         string // of the issuer, as its tokens have it: https, or http at a loopback address
	Audience    string // that tokens must be for: what the issuer calls this listener
	UserClaim   string // that names the user; empty: "sub"
	GroupsClaim string // a list of texts, or one text; empty: "groups"
	// Roles are the roles of groups, as credential.ParseGrants reads them: in all namespaces, such as "viewer", and in single ones, such as "submitter@ads". A user has those of
	// all its groups, and of several for one namespace the greatest; AnyGroup has those of each user whom the issuer knows.
	Roles map[string][]string
}

// AnyGroup stands for the groups of every user in Config.Roles.
const AnyGroup = "*"

// Bounds of what is asked of an issuer, and of what a token may be.
const (
	askTime  = 5 * time.Second
	maxToken = 8 << 10 // bytes, less than the header of a request
	maxName  = 256     // bytes
	// The keys of the issuer are fetched for a token of a key that is not known, at most so often: anybody can make such a token up. The keys that are known check
	// tokens meanwhile.
	fetchPause = time.Second
	maxKeys    = 1 << 20 // bytes of an answer with keys
	// A token that has counted is not checked again for so long, while it is valid: so not each call of a user costs a signature. A key that the issuer has taken back counts
	// for so long, too.
	checkedFor = time.Minute
	maxChecked = 1024 // tokens, each of a user who has counted
)

// algorithms are those that sign with a key that the issuer keeps for itself. "none" signs nothing, and the key of the HS family is no secret of the issuer alone.
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}

// An Issuer checks tokens. It is safe for concurrent use.
type Issuer struct {
	config   Config
	client   *http.Client
	fetches  fetches
	verifier *oidc.IDTokenVerifier
	known    known
}

// Open asks an issuer for what it publishes.
func Open(ctx context.Context, c Config) (*Issuer, error) {
	where := "issuer " + c.URL
	if !safe(c.URL) {
		return nil, fault.E(fault.InvalidArgument, fault.At(where), fault.Got("no such URL of an issuer"), fault.Want("https://HOST/..., without a user and a query"),
			fault.Hint("who can change what it answers can be anybody, so http is for loopback addresses only"))
	}
	if c.Audience == "" || len(c.Roles) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.At(where), fault.Got("an issuer without an audience or roles"), fault.Want("the audience of this listener, and at least one role of a group"))
	}
	for group, roles := range c.Roles {
		if _, _, err := credential.ParseGrants(roles...); err != nil {
			return nil, fault.E(fault.InvalidArgument, fault.At(where), fault.Got("the roles of group "+fault.Quote(group)), fault.Want("roles of a listener"), fault.Cause(err))
		}
	}
	c.UserClaim, c.GroupsClaim = cmp.Or(c.UserClaim, "sub"), cmp.Or(c.GroupsClaim, "groups")
	i := &Issuer{config: c, client: &http.Client{Timeout: askTime}, fetches: fetches{pause: fetchPause}, known: known{life: checkedFor}}
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, i.client), c.URL)
	if err != nil {
		kind := fault.Unavailable
		if ctx.Err() != nil {
			kind = fault.Canceled
		}
		return nil, fault.E(kind, fault.At(where), fault.Cause(err), fault.Hint("look whether "+strings.TrimSuffix(c.URL, "/")+"/.well-known/openid-configuration answers, and names this URL as its issuer"))
	}
	var published struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&published); err != nil || !safe(published.Keys) {
		return nil, fault.E(fault.Corrupt, fault.At(where), fault.Got("keys at "+fault.Quote(published.Keys)), fault.Want("an https URL"), fault.Cause(err))
	}
	fetching := &http.Client{Timeout: askTime, Transport: &i.fetches}
	set := oidc.NewRemoteKeySet(oidc.ClientContext(context.WithoutCancel(ctx), fetching), published.Keys)
	i.verifier = oidc.NewVerifier(c.URL, set, &oidc.Config{ClientID: c.Audience, SupportedSigningAlgs: algorithms})
	return i, nil
}

// safe reports whether nobody on the way can change what a URL answers.
func safe(text string) bool {
	at, err := url.Parse(text)
	if err != nil || at.Host == "" || at.User != nil || at.RawQuery != "" {
		return false
	}
	ip := net.ParseIP(at.Hostname())
	return at.Scheme == "https" || at.Scheme == "http" && (at.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// fetches are the requests for the keys of an issuer. Of those that come too soon after the last one none is made.
type fetches struct {
	pause time.Duration

	mu   sync.Mutex
	last time.Time
}

var errSoon = errors.New("the keys of the issuer were fetched just now")

// RoundTrip implements http.RoundTripper.
func (f *fetches) RoundTrip(q *http.Request) (*http.Response, error) {
	f.mu.Lock()
	soon := !f.last.IsZero() && time.Since(f.last) < f.pause
	if !soon {
		f.last = time.Now()
	}
	f.mu.Unlock()
	if soon {
		return nil, errSoon
	}
	a, err := http.DefaultTransport.RoundTrip(q)
	if err == nil {
		a.Body = http.MaxBytesReader(nil, a.Body, maxKeys)
	}
	return a, err
}

// known are tokens that have counted just now. Only a token that counts gets in, so nobody else can fill it.
type known struct {
	life time.Duration // for which a token stays, while it is valid

	mu  sync.Mutex
	all map[[sha256.Size]byte]checked
}

type checked struct {
	name  credential.Name
	until time.Time
}

// of returns whose a token is that has counted just now.
func (k *known) of(sum [sha256.Size]byte, now time.Time) (credential.Name, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.all[sum]
	return c.name, ok && now.Before(c.until)
}

// add notes a token that counts until it expires. Where there are too many, those that are over go, or else all.
func (k *known) add(sum [sha256.Size]byte, name credential.Name, expires, now time.Time) {
	until := now.Add(k.life)
	if expires.Before(until) {
		until = expires
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.all) >= maxChecked {
		maps.DeleteFunc(k.all, func(_ [sha256.Size]byte, c checked) bool { return !now.Before(c.until) })
	}
	if len(k.all) >= maxChecked || k.all == nil {
		k.all = map[[sha256.Size]byte]checked{}
	}
	k.all[sum] = checked{name, until}
}

// Check returns whose token it is. A token that does not count gives a fault of kind fault.Denied that does not quote it; if the issuer does not answer, which may be
// asked for its keys, the kind is fault.Unavailable.
func (i *Issuer) Check(ctx context.Context, token string) (credential.Name, error) {
	if len(token) > maxToken {
		return credential.Name{}, denied("a token of %d bytes", len(token))
	}
	sum, now := sha256.Sum256([]byte(token)), time.Now().Round(0) // by the clock of the wall, as tokens have their times
	if name, ok := i.known.of(sum, now); ok {
		return name, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	t, err := i.verifier.Verify(oidc.ClientContext(ctx, i.client), token)
	if err != nil {
		return credential.Name{}, i.refusal(ctx, err)
	}
	var claims map[string]any
	if err := t.Claims(&claims); err != nil {
		return credential.Name{}, denied("a token whose claims do not decode")
	}
	user, _ := claims[i.config.UserClaim].(string)
	if user == "" || len(user) > maxName || strings.ContainsFunc(user, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return credential.Name{}, denied("a token without a name in the claim %s", fault.Quote(i.config.UserClaim))
	}
	roles := i.roles(claims[i.config.GroupsClaim])
	if len(roles) == 0 {
		return credential.Name{}, denied("the token of %s, none of whose groups has a role here", fault.Quote(user))
	}
	access, within, err := credential.ParseGrants(roles...)
	if err != nil {
		return credential.Name{}, denied("the token of %s, whose groups have too many roles: %v", fault.Quote(user), err)
	}
	name := credential.Name{Kind: credential.User, User: user, Access: access, Within: within}
	i.known.add(sum, name, t.Expiry, now)
	return name, nil
}

// roles are those of the groups that a token names.
func (i *Issuer) roles(groups any) []string {
	var names []any
	switch g := groups.(type) {
	case string:
		names = []any{g}
	case []any:
		names = g
	}
	have := slices.Clone(i.config.Roles[AnyGroup])
	for _, name := range names {
		if text, ok := name.(string); ok && text != AnyGroup {
			have = append(have, i.config.Roles[text]...)
		}
	}
	return have
}

// refusal says why a token does not count.
func (i *Issuer) refusal(ctx context.Context, err error) error {
	var expired *oidc.TokenExpiredError
	var web *url.Error
	switch {
	case errors.As(err, &expired):
		return denied("a token that was valid until %s", expired.Expiry.UTC().Format(time.RFC3339))
	case strings.Contains(err.Error(), errSoon.Error()):
		return denied("a token whose key is not known: %v", errSoon)
	case errors.As(err, &web) || ctx.Err() != nil || strings.Contains(err.Error(), "fetching keys"):
		return fault.E(fault.Unavailable, fault.At("issuer "+i.config.URL), fault.Got("no keys, which check the token"), fault.Cause(err))
	}
	return denied("a token that does not count: %v", err)
}

func denied(format string, values ...any) error {
	return fault.E(fault.Denied, fault.Gotf(format, values...), fault.Want("one that the issuer of this listener has made for it"), fault.Hint("get another one from the issuer"))
}
