package conformance

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// object is something that the log serves, for the checks of how it does.
type object struct {
	path        string
	contentType string
	ids         string // of the content type
	caching     string // of the Cache-Control
	compressed  bool
	tile        *tile
}

// judgeReads judges how a log serves what it has, and what it has not.
func (r *run) judgeReads(ctx context.Context) {
	head := r.watch.look(ctx)
	if head == nil {
		return
	}
	if head.size == 0 {
		r.rec.note("S18 S26", "the log is empty")
	}
	objects := r.objects(ctx, head)
	for _, o := range objects {
		r.judgeObject(ctx, o)
	}
	for _, o := range append(objects, object{path: "checkpoint"}) {
		r.judgeAccess(ctx, o)
	}
	if r.wants("S36", "G01", "G02", "G12", "S33", "S23", "S19", "T4", "T8", "G07") {
		r.judgeAbsent(ctx, head, objects)
	}
	if r.wants("G11") {
		r.judgeOddPaths(ctx)
	}
	if r.wants("G08") {
		r.judgeRate(ctx, head)
	}
	r.judgePrefix(ctx)
}

// objects returns one object of each kind, if there is one.
func (r *run) objects(ctx context.Context, head *treeHead) (list []object) {
	if head.size == 0 {
		return nil
	}
	hashes := func(t tile) object {
		return object{path: t.path(), contentType: "application/octet-stream", ids: "S18 G06", caching: "S20 G07", tile: &t}
	}
	data := func(t tile) object {
		return object{path: t.path(), contentType: "application/octet-stream", ids: "S26 G06", caching: "S29 G07", compressed: true, tile: &t}
	}
	for l := range levels(head.size) {
		list = append(list, hashes(tileAt(head.size, l, widthAt(head.size, l)-1)))
	}
	last := tileAt(head.size, dataLevel, head.size-1)
	list = append(list, data(last))
	if head.size >= tileWidth {
		list = append(list, hashes(tileAt(head.size, 0, 0)), data(tileAt(head.size, dataLevel, 0)))
	}
	leaves, err := newTreeReader(ctx, r, head.size).entries(last)
	if err != nil {
		return list // reported with the tile
	}
	for _, l := range leaves {
		for _, fp := range l.chain {
			return append(list, object{path: fmt.Sprintf("issuer/%x", fp), contentType: "application/pkix-cert", ids: "S33 G06", caching: "S35 G07"})
		}
	}
	return list
}

// judgeObject judges the headers and the codings of one object.
func (r *run) judgeObject(ctx context.Context, o object) {
	rec := r.rec
	a := r.mon.accepting(ctx, o.path, "gzip, identity;q=0.5")
	if a.status == 404 && o.tile != nil { // the tree has grown past it
		o.path = o.tile.full()
		a = r.mon.accepting(ctx, o.path, "gzip, identity;q=0.5")
	}
	if !rec.check(a.status == http.StatusOK, o.ids+" R8 S8", "%s: %v", o.path, a) {
		return
	}
	got := a.header.Get("Content-Type")
	rec.check(got == o.contentType, o.ids, "%s has the Content-Type %q", o.path, got)
	rec.check(cacheable(a.header), o.caching, "%s has the Cache-Control %q", o.path, a.header.Get("Cache-Control"))
	content, err := a.decoded()
	if !rec.noError(err, "G05 G06", "%s", o.path) {
		return
	}
	if o.compressed {
		coding := a.header.Get("Content-Encoding")
		rec.check(coding == "gzip" && (len(a.body) < len(content) || len(content) < 200), "S27", "%s has the Content-Encoding %q, %d bytes for %d", o.path, coding, len(a.body), len(content))
		rec.check(!bytes.HasPrefix(content, []byte{0x1f, 0x8b}), "G06", "%s has two layers of gzip", o.path)
	}
	for _, codings := range []string{"", "identity", "gzip", "gzip;q=0", "zstd", "*"} {
		b := r.mon.accepting(ctx, o.path, codings)
		if !rec.check(b.status == http.StatusOK, "G05 R8", "%s with Accept-Encoding %q: %v", o.path, codings, b) {
			continue
		}
		same, err := b.decoded()
		rec.check(err == nil && bytes.Equal(same, content), "G05", "%s with Accept-Encoding %q: other bytes (%v)", o.path, codings, err)
		coded := b.header.Get("Content-Encoding")
		if coded != a.header.Get("Content-Encoding") {
			rec.check(strings.Contains(strings.ToLower(b.header.Get("Vary")), "accept-encoding"), "G05", "%s depends on Accept-Encoding and has the Vary %q", o.path, b.header.Get("Vary"))
		}
	}
	head := r.mon.do(ctx, call{method: http.MethodHead, path: o.path, header: http.Header{"Accept-Encoding": {"gzip"}}})
	rec.check(head.status == http.StatusOK && len(head.body) == 0 && head.header.Get("Content-Type") == o.contentType, "G06 X5", "HEAD %s: %v, Content-Type %q", o.path, head, head.header.Get("Content-Type"))
	r.judgeConditional(ctx, o, a)
}

// judgeConditional checks ranges and entity tags.
func (r *run) judgeConditional(ctx context.Context, o object, a answer) {
	h := http.Header{"Accept-Encoding": {"gzip"}, "Range": {"bytes=1-4"}}
	part := r.mon.do(ctx, call{path: o.path, header: h})
	ok := part.status == http.StatusOK && bytes.Equal(part.body, a.body) || part.status == http.StatusPartialContent && bytes.Equal(part.body, a.body[min(1, len(a.body)):min(5, len(a.body))])
	r.rec.check(ok, "X5", "%s, bytes 1 to 4: %v, %d bytes", o.path, part, len(part.body))
	tag := a.header.Get("ETag")
	if !r.rec.check(tag != "" && !strings.HasPrefix(tag, "W/"), "X5", "%s has the ETag %q", o.path, tag) {
		return
	}
	h = http.Header{"Accept-Encoding": {"gzip"}, "If-None-Match": {tag}}
	cached := r.mon.do(ctx, call{path: o.path, header: h})
	r.rec.check(cached.status == http.StatusNotModified && len(cached.body) == 0, "X5", "%s with its ETag: %v", o.path, cached)
}

// judgeAccess checks that an object is had by a plain GET, again and again, and
// from any page.
func (r *run) judgeAccess(ctx context.Context, o object) {
	one := r.mon.do(ctx, call{path: o.path, header: http.Header{"Cookie": {"session=x"}, "Authorization": {"Basic eDp5"}}})
	two := r.mon.get(ctx, o.path)
	ok := one.status == http.StatusOK && two.status == http.StatusOK
	if !ok && o.tile != nil && two.status == 404 {
		return // the tree has grown past it
	}
	r.rec.check(ok, "R8", "%s: %v with credentials, %v without", o.path, one, two)
	if o.path != "checkpoint" {
		r.rec.check(bytes.Equal(one.body, two.body), "S8", "%s: two reads gave different bytes", o.path)
	}
	r.rec.check(two.header.Get("Set-Cookie") == "", "R8", "%s sets a cookie", o.path)
	r.rec.check(allowsAny(two), "X4", "%s: Access-Control-Allow-Origin %q", o.path, two.header.Get("Access-Control-Allow-Origin"))
	asked := r.mon.do(ctx, call{method: http.MethodOptions, path: o.path, header: http.Header{"Origin": {"https://page.example"}, "Access-Control-Request-Method": {"GET"}}})
	r.rec.check((asked.status == 200 || asked.status == 204) && allowsAny(asked), "X4", "OPTIONS %s: %v", o.path, asked)
}

// judgeAbsent asks for tiles and issuers that the log cannot have.
func (r *run) judgeAbsent(ctx context.Context, head *treeHead, objects []object) {
	const far = 7_000_000_000 // entries, which no log will have while it is read
	zeros := strings.Repeat("0", 64)
	absent := map[string]string{
		"issuer/" + zeros:                           "S33",
		"issuer/" + zeros[1:]:                       "S33",
		"issuer/" + zeros + "0":                     "S33",
		"issuer/" + zeros[1:] + "g":                 "S33",
		"issuer/":                                   "G11",
		"tile/0/999":                                "",
		"tile/data/999":                             "",
		"tile/0/" + tileNumber(far/256):             "S23",
		"tile/data/" + tileNumber(far/256) + ".p/1": "S23",
		"tile/6/000":                                "T4 S19",
		"tile/63/000":                               "T4 S19",
		"tile/64/000":                               "T4 S19",
		"tile/entries/000":                          "T8",
		"tile/entries/000.p/1":                      "T8",
	}
	for l := range 6 {
		// One more than there is, and nothing at all, of the last tile.
		w := widthAt(head.size, l)
		n := tileNumber(w / tileWidth)
		absent[fmt.Sprintf("tile/%d/%s.p/0", l, n)] = "S19 S23"
		absent[fmt.Sprintf("tile/%d/%s.p/256", l, n)] = "S19 S23"
		if l > 0 { // level 0 may grow meanwhile
			absent[fmt.Sprintf("tile/%d/%s.p/%d", l, n, w%tileWidth+1)] = "S23"
		}
	}
	for _, p := range []string{"tile/0/0", "tile/0/00", "tile/0/0000", "tile/00/000", "tile/+0/000", "tile/0/000.p/01", "tile/0/000.p/1x", "tile/0/x000/000",
		"tile/0/000.p", "tile/0/000.p/", "tile/0/-01", "tile/data/0", "tile/data/x000/000", "tile/data/000.p/00", "tile/DATA/000", "tile/0/000/"} {
		absent[p] = "S19"
	}
	for path, ids := range absent {
		if strings.Contains(path, "999") && head.size >= 999*tileWidth {
			continue
		}
		r.judgeMissing(ctx, path, "S36 G01 G12 "+ids)
	}
	for _, o := range objects {
		if fp, ok := strings.CutPrefix(o.path, "issuer/"); ok {
			a := r.mon.get(ctx, "issuer/"+strings.ToUpper(fp))
			r.rec.check(a.refused() || a.status == http.StatusOK, "S33", "an issuer in capital letters: %v", a)
		}
	}
	r.judgeGrowing(ctx)
}

// judgeMissing asks for what must be absent.
func (r *run) judgeMissing(ctx context.Context, path, ids string) {
	a := r.mon.get(ctx, path)
	if ctx.Err() != nil {
		return
	}
	r.rec.check(a.status != http.StatusOK, ids, "%s: 200, want 404", path)
	r.rec.check(a.refused() || a.status == http.StatusOK, "G01 G12", "%s: %v, want 404", path, a)
	if !a.refused() {
		return
	}
	r.rec.check(len(a.body) <= 1024, "G01", "%s: the text of the %d has %d bytes", path, a.status, len(a.body))
	kept := cacheable(a.header) || hasDirective(a.header.Get("Cache-Control"), "immutable")
	r.rec.check(!kept && a.header.Get("Content-Encoding") == "", "G01 G07", "%s: the %d has the Cache-Control %q and the Content-Encoding %q", path, a.status,
		a.header.Get("Cache-Control"), a.header.Get("Content-Encoding"))
}

// judgeGrowing asks for the full tile while it is still a partial one.
func (r *run) judgeGrowing(ctx context.Context) {
	before := r.watch.look(ctx)
	n := before.size / tileWidth
	hashes := r.mon.get(ctx, tile{0, n, tileWidth}.full())
	data := r.mon.accepting(ctx, tile{dataLevel, n, tileWidth}.full(), "gzip")
	level1 := r.mon.get(ctx, tile{1, n / tileWidth, tileWidth}.full())
	after := r.watch.look(ctx)
	if after.size/tileWidth != n {
		r.rec.note("G02", "the tile filled up while it was asked for")
		return
	}
	r.rec.check(hashes.refused(), "G02 S36 G01", "%s at size %d: %v", tile{0, n, tileWidth}.full(), after.size, hashes)
	r.rec.check(data.refused(), "G02 S36 G01", "%s at size %d: %v", tile{dataLevel, n, tileWidth}.full(), after.size, data)
	r.rec.check(level1.refused(), "G02 S36 G01", "%s at size %d: %v", tile{1, n / tileWidth, tileWidth}.full(), after.size, level1)
}

// judgeOddPaths asks for what lies beside the log's objects.
func (r *run) judgeOddPaths(ctx context.Context) {
	for _, path := range []string{
		"", "tile", "tile/", "tile/0", "tile/0/", "tile/data/", "tile/data", "issuer", "staging", "staging/", "data/", "log/",
		"tile/../checkpoint", "issuer/../checkpoint", "issuer/../../../../../../etc/passwd", "../checkpoint", "tile/0/../../checkpoint",
		"tile/%2e%2e/checkpoint", "%2e%2e/%2e%2e/etc/passwd", "issuer/..%2f..%2fetc%2fpasswd", "tile//0/000", "tile/0//000", "/checkpoint", "//checkpoint",
		"./checkpoint", "checkpoint/", "checkpoint.tmp", "checkpoint~", ".checkpoint", "CHECKPOINT", ".git/config", ".env", "checkpoint%00", "tile/0/000%00",
		"cache.db", "cache.db-wal", "lock.db", "checkpoints.db", "seed.bin", "key.pem", "dev.json", "root-key.pem", "daybook.yaml", "../lock.db", "../seed.bin", "tmp/", "index.html",
	} {
		a := r.mon.get(ctx, path)
		if ctx.Err() != nil {
			return
		}
		// The root of a host may hold a page about the log.
		page := path == "" && a.status == http.StatusOK && strings.HasPrefix(a.header.Get("Content-Type"), "text/html")
		listing := strings.Contains(string(a.body), "checkpoint</a>") || strings.Contains(string(a.body), `href="tile/`)
		redirect := a.status >= 300 && a.status < 400
		r.rec.check((a.refused() || page || redirect) && !listing, "G11", "%q: %v", path, a)
	}
}

// judgeRate reads forty times within two seconds, as a monitor that keeps up
// may have to.
func (r *run) judgeRate(ctx context.Context, head *treeHead) {
	paths := []string{"checkpoint"}
	if head.size > 0 {
		paths = append(paths, tileAt(head.size, dataLevel, head.size-1).path(), tileAt(head.size, 0, head.size-1).path())
	}
	for i := range 40 {
		path := paths[i%len(paths)]
		a := r.mon.accepting(ctx, path, "gzip")
		r.rec.check(a.status == 200 || a.status == 404, "G08", "%s, read %d of 40: %v", path, i+1, a)
		r.pause(ctx, 50*time.Millisecond)
	}
}

// judgePrefix checks that a prefix with a path is what decides.
func (r *run) judgePrefix(ctx context.Context) {
	_, path := r.mon.parts()
	if path == "" {
		r.rec.note("G09", "the prefix has no path")
		return
	}
	r.rec.check(r.mon.get(ctx, "checkpoint").status == http.StatusOK, "G09", "checkpoint is not there")
	outer := *r.mon
	outer.prefix = strings.TrimSuffix(r.mon.prefix, path)
	for _, other := range []string{"checkpoint", strings.TrimPrefix(path, "/") + "x/checkpoint", strings.TrimPrefix(path, "/") + path + "/checkpoint"} {
		a := outer.get(ctx, other)
		ours := a.status == http.StatusOK && bytes.HasPrefix(a.body, []byte(r.t.Origin+"\n"))
		r.rec.check(!ours, "G09", "/%s is the log's checkpoint, too", other)
	}
}
