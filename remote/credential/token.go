package credential

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/filelock"
)

// A Token is what is known of a bearer token: everything but the token itself. A browser, and a program such as Prometheus, shows a token where it cannot show
// a certificate.
type Token struct {
	Name    string    `json:"name"`
	Access  Access    `json:"role"` // in all namespaces; empty: none
	Within  Grants    `json:"namespaces,omitempty"`
	Sum     string    `json:"sha256"` // of the token, as hexadecimal digits
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"` // zero: never
}

// TokenFile is the name of the file of tokens in the data folder of a listener.
const TokenFile = "tokens.json"

// Bounds of a file of tokens, and of a token that somebody shows.
const (
	maxTokens    = 1000
	maxTokenFile = 1 << 20
	maxToken     = 256
)

// tokenPrefix begins every token, so that people and scanners for secrets know what they see.
const tokenPrefix = "edl_"

// Tokens are the tokens of a file, and those that were lent. The file has no token, only their SHA-256 sums: a token is 256 random bits, so its sum does not tell
// it. Another process may change the file at any time. Tokens are safe for concurrent use.
type Tokens struct {
	path string // empty: only those that were lent

	mu   sync.Mutex
	lent []Token
	file []Token
	read fs.FileInfo // of the file, when it was read; nil: it was not there
}

// OpenTokens returns the tokens of a file, which need not be there. Without a path there are only those of Lend.
func OpenTokens(path string) *Tokens { return &Tokens{path: path} }

// Lend makes a token that lives as long as this process. It is in no file.
func (t *Tokens) Lend(name string, access Access) string {
	secret, token := newToken(Name{User: name, Access: access}, 0)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lent = append(t.lent, token)
	return secret
}

// Create makes a token, enters it into the file, and returns it. Nobody can read it again. Two tokens have different names. A life of 0 is for ever.
// What counts of the user is its name, and what it may do.
func (t *Tokens) Create(user Name, life time.Duration) (secret string, err error) {
	name := user.User
	if name == "" || len(name) > 100 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fault.E(fault.InvalidArgument, fault.At("token"), fault.Got("name "+fault.Quote(name)), fault.Want("1 to 100 bytes without control characters"))
	}
	err = t.change(func(all []Token) ([]Token, error) {
		all = slices.DeleteFunc(all, func(o Token) bool { return o.over(time.Now()) })
		switch {
		case slices.ContainsFunc(all, func(o Token) bool { return o.Name == name }):
			return nil, fault.E(fault.InvalidArgument, fault.At("token "+fault.Quote(name)), fault.Got("a name that another token has"), fault.Want("another name"),
				fault.Hint("\"edl token revoke\" takes the other one back"))
		case len(all) >= maxTokens:
			return nil, fault.E(fault.TooLarge, fault.At(t.path), fault.Gotf("%d tokens", len(all)), fault.Wantf("at most %d", maxTokens))
		}
		var token Token
		secret, token = newToken(user, life)
		return append(all, token), nil
	})
	return secret, err
}

// Revoke removes a token from the file. It counts no more from now on.
func (t *Tokens) Revoke(name string) error {
	return t.change(func(all []Token) ([]Token, error) {
		i := slices.IndexFunc(all, func(o Token) bool { return o.Name == name })
		if i < 0 {
			return nil, fault.E(fault.NotFound, fault.At(t.path), fault.Got("token "+fault.Quote(name)), fault.Want("one that \"edl token list\" lists"))
		}
		return slices.Delete(all, i, i+1), nil
	})
}

// List returns the tokens of the file.
func (t *Tokens) List() ([]Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.refresh()
	return slices.Clone(t.file), err
}

// Check returns whose token it is. The time that it takes does not tell how much of a wrong token is right. If the file cannot be read, or others may change it,
// none of its tokens counts.
func (t *Tokens) Check(secret string) (Name, error) {
	denied := fault.E(fault.Denied, fault.Got("a token that is not known"), fault.Want("a token of this listener"), fault.Hint("\"edl token create NAME --role viewer\" makes one"))
	if secret == "" {
		return Name{}, fault.E(fault.Denied, fault.Got("no token"), fault.Want("a token of this listener"), fault.Hint("\"edl token create NAME --role viewer\" makes one"))
	}
	if len(secret) > maxToken {
		return Name{}, denied
	}
	sum := sumOf(secret)
	t.mu.Lock()
	defer t.mu.Unlock()
	wrong := t.refresh()
	found := -1
	all := slices.Concat(t.lent, t.file)
	for i, o := range all {
		if subtle.ConstantTimeCompare([]byte(o.Sum), []byte(sum)) == 1 {
			found = i
		}
	}
	if found < 0 || all[found].over(time.Now()) {
		if wrong != nil {
			return Name{}, wrong
		}
		return Name{}, denied
	}
	return Name{Kind: User, User: all[found].Name, Access: all[found].Access, Within: all[found].Within, Token: sum}, nil
}

// Counts refuses who has a certificate for a token that does not count any more, or is none of these. A nil Tokens knows no token.
func (t *Tokens) Counts(n Name) error {
	if n.Token == "" {
		return nil
	}
	gone := fault.E(fault.Denied, fault.Gotf("a call of %s, with credentials for a token that this listener does not know, or no longer", n), fault.Want("credentials for one that counts"),
		fault.Hint("\"edl login\" gets others for another token"))
	if t == nil {
		return gone
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.refresh(); err != nil {
		return err
	}
	for _, o := range slices.Concat(t.lent, t.file) {
		if o.Sum == n.Token && !o.over(time.Now()) {
			return nil
		}
	}
	return gone
}

// known reports whether the roles of a token are some that Create enters. An unknown one may have meant less.
func (o Token) known() bool {
	roles := Name{Access: o.Access, Within: o.Within}.Roles()
	access, within, err := ParseGrants(strings.Split(roles, ",")...)
	return err == nil && access == o.Access && within == o.Within
}

// over reports whether a token has expired.
func (o Token) over(now time.Time) bool { return !o.Expires.IsZero() && now.After(o.Expires) }

func newToken(user Name, life time.Duration) (secret string, _ Token) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	secret = tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	token := Token{Name: user.User, Access: user.Access, Within: user.Within, Sum: sumOf(secret), Created: time.Now().UTC().Truncate(time.Second)}
	if life > 0 {
		token.Expires = token.Created.Add(life)
	}
	return secret, token
}

func sumOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// refresh reads the file if it has changed. t.mu is held.
func (t *Tokens) refresh() error {
	if t.path == "" {
		return nil
	}
	info, err := os.Stat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		t.file, t.read = nil, nil
		return nil
	}
	if err == nil && t.read != nil && os.SameFile(info, t.read) && info.ModTime().Equal(t.read.ModTime()) && info.Size() == t.read.Size() && info.Mode() == t.read.Mode() {
		return nil
	}
	t.file, t.read = nil, nil
	if err != nil {
		return fault.File(fault.Unavailable, t.path, err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return fault.E(fault.InvalidArgument, fault.At(t.path), fault.Gotf("mode %v: other users may read or change it", info.Mode().Perm()), fault.Want("mode 0600"),
			fault.Hint("run chmod 600 "+t.path))
	}
	f, err := os.Open(t.path)
	if err != nil {
		return fault.File(fault.Unavailable, t.path, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	var content tokenFile
	if err == nil && len(b) > maxTokenFile {
		err = errors.New("too long")
	}
	if err == nil {
		err = json.Unmarshal(b, &content)
	}
	if err == nil && slices.ContainsFunc(content.Tokens, func(o Token) bool { return !o.known() }) {
		err = errors.New("a token of an unknown role")
	}
	if err != nil {
		return fault.File(fault.Corrupt, t.path, err)
	}
	t.file, t.read = content.Tokens, info
	return nil
}

// tokenFile is the content of the file.
type tokenFile struct {
	Tokens []Token `json:"tokens"`
}

// change replaces the file by what a function makes of its tokens. One process changes it at a time.
func (t *Tokens) change(to func([]Token) ([]Token, error)) (err error) {
	if t.path == "" {
		return fault.E(fault.InvalidArgument, fault.At("tokens"), fault.Got("a listener without a data folder"), fault.Want("--data-dir DIR"))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(t.path), 0o700); err != nil {
		return fault.File(fault.Unavailable, t.path, err)
	}
	lock, err := os.OpenFile(t.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fault.File(fault.Unavailable, t.path, err)
	}
	defer lock.Close()
	if filelock.Supported && filelock.Try(lock) != nil {
		return fault.E(fault.Unavailable, fault.At(t.path), fault.Got("a file that another process changes"), fault.Want("one at a time"), fault.Hint("try again"))
	}
	t.read = nil
	if err := t.refresh(); err != nil {
		return err
	}
	all, err := to(slices.Clone(t.file))
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(tokenFile{all}, "", "  ")
	if err != nil {
		return fault.Wrap(fault.Internal, t.path, err)
	}
	if err := replace(t.path, append(b, '\n')); err != nil {
		return fault.File(fault.Unavailable, t.path, err)
	}
	t.read = nil
	return t.refresh()
}
