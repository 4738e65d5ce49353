// The script of the pages of optimize serve: it follows a run, draws its charts, and sends changes without leaving the
// page. Every page works without it.
'use strict';

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const $ = (selector, within = document) => within.querySelector(selector);
const known = v => v !== null && v !== undefined && Number.isFinite(v);

// Numbers are formatted as the server does.
function significant(v) {
  const a = Math.abs(v);
  if (a === 0) return '0';
  if (Number.isInteger(v)) return v.toLocaleString('en-US');
  if (a >= 99.95) return Math.round(v).toLocaleString('en-US');
  if (a >= 9.995) return v.toFixed(1);
  if (a >= 0.9995) return v.toFixed(2);
  return String(Number(v.toPrecision(3)));
}
function usd(v) {
  const a = Math.abs(v), sign = v < 0 ? '-$' : '$';
  if (a >= 0.9995 || a === 0) return sign + a.toLocaleString('en-US', {minimumFractionDigits: 2, maximumFractionDigits: 2});
  return sign + a.toFixed(2 - Math.floor(Math.log10(a))).replace(/(\.\d\d+?)0+$/, '$1');
}
function duration(s) {
  if (s < 59.95) return String(Number(s.toPrecision(3))) + ' s';
  const pair = (n, per, large, small) => Math.floor(n / per) + ' ' + large + ' ' + pad(n % per) + ' ' + small;
  if (Math.round(s) < 3600) return pair(Math.round(s), 60, 'm', 's');
  if (Math.round(s) < 48 * 3600) return pair(Math.round(s / 60), 60, 'h', 'm');
  return pair(Math.round(s / 3600), 24, 'd', 'h');
}
const pad = n => String(n).padStart(2, '0');
function clock(date) { // with the day if that is not today
  const time = pad(date.getHours()) + ':' + pad(date.getMinutes());
  if (date.toDateString() === new Date().toDateString()) return time + ':' + pad(date.getSeconds());
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${time}`;
}

// Steps of an axis in seconds.
const seconds = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000];
// Steps of an axis of units of work.
const whole = Array.from({length: 30}, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3));

// Charts of a run. values: the columns of samples that the lines need; the band lies between two of them.
const charts = {
  finish: {steps: seconds, wide: true, lines: [
    {name: 'elapsed', of: r => r.time_s, color: '--s1'},
    {name: 'predicted finish', of: r => r.projected_s, color: '--s2', dash: [6, 4], low: r => r.projected_s_p5, high: r => r.projected_s_p95}], format: duration, limit: 'deadline'},
  money: {lines: [
    {name: 'spent', of: r => r.cost_usd, color: '--s1'},
    {name: 'predicted at the end', of: r => r.projected_cost_usd, color: '--s2', dash: [6, 4], low: r => r.projected_cost_usd_p5, high: r => r.projected_cost_usd_p95}], format: usd, limit: 'budget'},
  throughput: {lines: [{name: 'measured', of: r => r.throughput, color: '--s1'}], format: significant, unit: true},
  utilisation: {top: 100, lines: [
    {name: 'CPU', of: r => known(r.tree_cpu_percent) && r.cpus > 0 ? r.tree_cpu_percent / r.cpus : null, color: '--s1'},
    {name: 'GPU', of: r => r.gpu_util_percent, color: '--s3', dash: [2, 3]}], format: v => significant(v) + ' %'},
  memory: {lines: [
    {name: 'job', of: r => r.tree_memory_gib, color: '--s1'},
    {name: 'GPU', of: r => r.gpu_memory_gib, color: '--s3', dash: [2, 3]},
    {name: 'allocated', of: r => r.memory_gib, color: '--s4', dash: [8, 4]}], format: v => v !== 0 && Math.abs(v) < 0.09995 ? significant(1024 * v) + ' MiB' : significant(v) + ' GiB'},
  progress: {lines: [{name: 'done', of: r => r.units, color: '--s1'}], format: significant, unit: true, limit: 'total', steps: whole},
};

const keepRows = 2400; // more are thinned

class RunPage {
  constructor(root) {
    this.root = root;
    this.id = root.dataset.id;
    this.rows = [];
    this.plots = new Map();
    this.taken = Promise.resolve(); // when all samples that arrived are in rows
    this.load();
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.redraw(true));
    new ResizeObserver(() => this.resize()).observe(root);
    // A hidden page leaves its connection to others: a browser opens only six to a server.
    document.addEventListener('visibilitychange', () => { if (document.hidden) this.leave(); else this.follow(); });
    addEventListener('pagehide', () => this.leave());
    addEventListener('pageshow', event => { if (event.persisted) this.follow(); });
  }

  async load() {
    this.after = '';
    try {
      this.after = await this.loadSamples();
    } catch { /* the stream sends the newest rows instead */ }
    this.redraw();
    this.loaded = true;
    this.follow();
  }

  // loadSamples replaces the rows by those of the whole run. It returns where the stream continues.
  async loadSamples() {
    const answer = await fetch(`/api/runs/${this.id}/samples`);
    if (!answer.ok) throw new Error(answer.statusText);
    const series = await answer.json();
    this.rows = (series.columns.time_s || []).map((_, i) => {
      const row = {};
      for (const name in series.columns) row[name] = series.columns[name][i] ?? null;
      return row;
    });
    return series.after;
  }

  // follow opens the stream, after the last event that arrived, until the run is over.
  follow() {
    if (!this.loaded || this.source || document.hidden) return;
    const source = this.source = new EventSource(`/runs/${this.id}/events?after=${encodeURIComponent(this.after)}`);
    const on = (name, take) => source.addEventListener(name, event => {
      this.after = event.lastEventId;
      take(JSON.parse(event.data));
    });
    source.onopen = () => this.link('following');
    source.onerror = () => this.link('connection lost, reconnecting');
    on('samples', data => { this.taken = this.taken.then(() => this.take(data)).catch(problem => console.error(problem)); });
    on('state', data => this.state(data));
    on('output', data => this.output(data));
    on('end', () => { // of the run, or of a pause, after which another agent may continue it
      this.leave();
      this.link('following');
      setTimeout(() => this.follow(), 10000);
    });
  }

  leave() {
    if (this.source) this.source.close();
    this.source = null;
  }

  link(text) {
    const place = $('#link-state');
    place.textContent = text;
    place.classList.toggle('unseen', text === 'following');
    place.classList.toggle('warn', text !== 'following');
  }

  // take adds rows of the stream. It has only the newest ones of a file that was replaced, as a table that is thinned is.
  async take(data) {
    if (data.reset) {
      try {
        await this.loadSamples();
      } catch { this.rows = []; } // the newest rows remain
    }
    for (const values of data.rows) {
      const row = {};
      data.columns.forEach((name, i) => { row[name] = values[i]; });
      const last = this.rows[this.rows.length - 1];
      if (!last || row.time_s > last.time_s) this.rows.push(row); // others were loaded with the whole run
    }
    if (this.rows.length > keepRows) this.rows = this.rows.filter((_, i) => i % 2 === 0 || i > this.rows.length - 200);
    this.redraw();
  }

  state(data) {
    for (const name in data.html) {
      const place = $(`[data-part="${name}"]`, this.root);
      if (!place) continue;
      const focus = place.contains(document.activeElement) ? document.activeElement : null;
      if (focus && focus.tagName === 'INPUT') continue; // being typed in; the next change brings it up to date
      const open = [...place.querySelectorAll('details')].map(d => d.open);
      place.innerHTML = data.html[name];
      place.querySelectorAll('details').forEach((d, i) => { if (open[i]) d.open = true; });
      if (focus) {
        const again = [...place.querySelectorAll(focus.tagName)].find(e => e.textContent === focus.textContent && e.value === focus.value);
        if (again) again.focus();
      }
    }
    const problem = $('#problem');
    problem.hidden = !data.problem;
    problem.textContent = data.problem || '';
    this.running = data.state === 'running';
    this.forecast();
  }

  output(data) {
    const place = $('#log-' + data.stream);
    if (!place) return;
    let text = (data.reset ? '' : place.textContent) + data.text;
    if (text.length > 200000) text = text.slice(text.indexOf('\n', text.length - 150000) + 1);
    place.textContent = text;
    if ($('#follow').checked) place.scrollTop = place.scrollHeight;
  }

  // forecast shows the newest sample as words.
  forecast() {
    const last = this.rows[this.rows.length - 1];
    const place = $('#forecast');
    if (!last) { place.textContent = ''; return; }
    const bar = $('.meter progress'), words = $('#progress-words');
    if (this.running && words && known(last.units)) {
      const total = parseFloat(words.dataset.total);
      words.textContent = total ? `${significant(last.units)} of ${significant(total)} ${words.dataset.unit}s` : `${significant(last.units)} ${words.dataset.unit}s`;
      if (bar && total) bar.value = 100 * last.units / total;
    }
    if (!this.running) { place.textContent = ''; return; }
    const parts = [`elapsed ${duration(last.time_s)}`, `spent ${usd(last.cost_usd)}`];
    if (known(last.projected_s)) {
      const at = s => new Date(Date.now() + 1000 * (s - last.time_s));
      let words = `predicted finish ${clock(at(last.projected_s))} (after ${duration(last.projected_s)}`;
      if (known(last.projected_s_p5)) words += `, 90 %: ${duration(last.projected_s_p5)} to ${duration(last.projected_s_p95)}`;
      parts.push(words + ')');
      if (known(last.projected_cost_usd)) parts.push(`for ${usd(last.projected_cost_usd)}`);
    }
    place.textContent = parts.join(' · ');
  }

  redraw(anew) {
    this.forecast();
    for (const figure of this.root.querySelectorAll('figure.live')) {
      const spec = charts[figure.dataset.chart];
      const limit = parseFloat(figure.dataset.limit);
      const lines = spec.lines.filter(l => this.rows.some(r => known(l.of(r))));
      figure.classList.toggle('empty', lines.length === 0);
      if (lines.length === 0) continue;
      const data = [this.rows.map(r => r.time_s)], series = [{}], bands = [];
      const names = [];
      for (const l of lines) {
        const color = css(l.color);
        data.push(this.rows.map(r => l.of(r) ?? null));
        series.push({label: l.name, stroke: color, width: 2, dash: l.dash, points: {show: (u, i) => u.data[i].filter(known).length < 2}});
        names.push(l.name);
        if (l.low && this.rows.some(r => known(l.low(r)))) {
          data.push(this.rows.map(r => l.high(r) ?? null), this.rows.map(r => l.low(r) ?? null));
          series.push({stroke: color, width: .5, points: {show: false}, label: '95 %'}, {stroke: color, width: .5, points: {show: false}, label: '5 %'});
          bands.push({series: [series.length - 2, series.length - 1], fill: color + '33'});
          names.push(null, null);
        }
      }
      if (Number.isFinite(limit)) {
        data.push(this.rows.map(() => limit));
        series.push({label: spec.limit, stroke: css('--bad'), width: 1.5, points: {show: false}});
        names.push(spec.limit);
      }
      const key = names.join() + bands.length;
      let plot = this.plots.get(figure);
      if (plot && (anew || plot.key !== key)) { plot.chart.destroy(); plot = null; }
      if (!plot) {
        plot = {key, chart: this.draw(figure, spec, series, bands, data, limit)};
        this.plots.set(figure, plot);
      } else {
        plot.chart.setData(data);
      }
      this.latest(figure, spec, lines, limit);
    }
  }

  // latest writes the newest values below a chart: its text alternative.
  latest(figure, spec, lines, limit, at = this.rows.length - 1) {
    const row = this.rows[at];
    const parts = lines.filter(l => known(l.of(row))).map(l => {
      let text = `${l.name} ${spec.format(l.of(row))}${spec.unit ? figure.dataset.unit : ''}`;
      if (l.low && known(l.low(row))) text += ` (${spec.format(l.low(row))} to ${spec.format(l.high(row))})`;
      return text;
    });
    if (Number.isFinite(limit)) parts.push(`${spec.limit} ${spec.format(limit)}`);
    $('.latest', figure).textContent = `at ${duration(row.time_s)}: ${parts.join(', ')}`;
  }

  draw(figure, spec, series, bands, data, limit) {
    const place = $('.plot', figure);
    const axis = {stroke: css('--soft'), grid: {stroke: css('--grid'), width: 1}, ticks: {stroke: css('--grid'), width: 1}, font: '12px system-ui, sans-serif'};
    const names = series.map(s => s.label);
    const self = this;
    return new uPlot({
      width: place.clientWidth || 480, height: 210, series, bands, legend: {show: false}, cursor: {drag: {x: true, y: false}, sync: {key: 'run'}, y: false},
      scales: {x: {time: false}, y: {range: (u, min, max) => {
        let top = Math.max(max, spec.top || 0);
        const most = Math.max(...u.data.slice(1, Number.isFinite(limit) ? -1 : undefined).map(c => c.reduce((a, v) => known(v) && v > a ? v : a, 0)));
        if (Number.isFinite(limit) && limit > 3 * most) top = Math.max(most, spec.top || 0); // a distant limit would flatten the lines
        return [0, top > 0 ? top * 1.06 : 1];
      }}},
      axes: [{...axis, values: (u, ticks) => ticks.map(duration), size: 30, space: 80, incrs: seconds}, {...axis, size: spec.wide ? 78 : 66, incrs: spec.steps, values: (u, ticks) => ticks.map(spec.format)}],
      hooks: {
        setCursor: [u => { if (self.rows.length) self.latest(figure, spec, spec.lines.filter(l => self.rows.some(r => known(l.of(r)))), limit, u.cursor.idx ?? undefined); }],
        draw: [u => { // names at the ends of the lines, so that colour is not the only distinction
          const context = u.ctx;
          context.save();
          context.font = `600 ${11 * devicePixelRatio}px system-ui, sans-serif`;
          context.textAlign = 'right';
          let taken = [];
          series.forEach((s, i) => {
            if (i === 0 || !names[i] || names[i].endsWith(' %') || series.length === 2) return;
            const column = u.data[i];
            let k = column.length - 1;
            while (k >= 0 && !known(column[k])) k--;
            if (k < 0) return;
            let y = u.valToPos(column[k], 'y', true);
            if (y < u.bbox.top - 1) return; // beyond the chart
            const x = Math.max(u.valToPos(u.data[0][k], 'x', true), u.bbox.left + 150 * devicePixelRatio);
            const step = 14 * devicePixelRatio, low = u.bbox.top + u.bbox.height - 2 * devicePixelRatio;
            const free = [0, 1, -1, 2, -2, 3, -3].map(n => y - 5 * devicePixelRatio + n * step)
              .filter(at => at <= low && at > u.bbox.top - 2 * step && taken.every(t => Math.abs(t - at) >= step - 1));
            if (free.length === 0) return;
            y = free[0];
            taken.push(y);
            context.lineWidth = 4 * devicePixelRatio;
            context.strokeStyle = css('--card');
            context.strokeText(names[i], Math.min(x, u.bbox.left + u.bbox.width - 2), y);
            context.fillStyle = typeof s.stroke === 'function' ? css('--ink') : s.stroke;
            context.fillText(names[i], Math.min(x, u.bbox.left + u.bbox.width - 2), y);
          });
          context.restore();
        }],
      },
    }, data, place);
  }

  resize() {
    for (const [figure, plot] of this.plots) {
      const width = $('.plot', figure).clientWidth;
      if (width && Math.abs(width - plot.chart.width) > 2) plot.chart.setSize({width, height: 210});
    }
  }
}

// Changes are sent without leaving the page of a run; the answer is shown in place.
async function change(page, form, submitter) {
  if (form.dataset.confirm && !confirm(form.dataset.confirm)) return;
  const body = new URLSearchParams(new FormData(form));
  if (submitter && submitter.name) body.set(submitter.name, submitter.value);
  const place = $('#outcome');
  const show = (text, bad) => { place.hidden = false; place.textContent = text; place.classList.toggle('problem', bad); };
  if (submitter) submitter.disabled = true;
  show('Asked; waiting for the answer …', false);
  try {
    const answer = await fetch(form.action, {method: 'POST', body, headers: {Accept: 'application/json'}});
    const result = await answer.json();
    show(result.text || result.error, !answer.ok);
    page.follow(); // a run that was over may run again
  } catch (problem) {
    show('The page did not answer: ' + problem.message, true);
  }
  if (submitter) submitter.disabled = false;
}

function listPage(table) {
  const key = 'selected-runs';
  const chosen = new Set(JSON.parse(sessionStorage.getItem(key) || '[]'));
  const show = () => {
    for (const box of table.querySelectorAll('input[name=run]')) box.checked = chosen.has(box.value);
    $('#selected').textContent = chosen.size === 0 ? 'none selected' : `${chosen.size} selected${chosen.size > 8 ? '; at most 8 can be compared' : ''}`;
    $('#compare-button').disabled = chosen.size === 0 || chosen.size > 8;
    sessionStorage.setItem(key, JSON.stringify([...chosen]));
  };
  table.addEventListener('change', event => {
    if (event.target.name !== 'run') return;
    if (event.target.checked) chosen.add(event.target.value); else chosen.delete(event.target.value);
    show();
  });
  $('#compare').addEventListener('submit', event => { // also those on other pages of the list
    event.preventDefault();
    const query = new URLSearchParams([...chosen].map(id => ['run', id]));
    chosen.clear();
    show();
    location.href = '/compare?' + query;
  });
  let tag = null;
  const used = () => table.contains(document.activeElement) && document.activeElement.name !== 'run'; // a selection is restored
  setInterval(async () => {
    if (document.hidden || used()) return;
    try {
      const answer = await fetch(table.dataset.part, {headers: tag ? {'If-None-Match': tag} : {}});
      if (answer.status !== 200) return;
      const fresh = await answer.text();
      if (used()) return;
      tag = answer.headers.get('ETag');
      const focus = table.contains(document.activeElement) ? document.activeElement.value : null;
      table.innerHTML = fresh;
      show();
      const again = [...table.querySelectorAll('input[name=run]')].find(box => box.value === focus);
      if (again) again.focus({preventScroll: true});
    } catch { /* the next time */ }
  }, 3000);
  show();
  for (const select of document.querySelectorAll('.filters select')) select.addEventListener('change', () => select.form.requestSubmit());
}

// clusterPage renews the page of the cluster, but not while a part of it is in use.
function clusterPage(place) {
  setInterval(async () => {
    if (document.hidden || place.contains(document.activeElement)) return;
    try {
      const answer = await fetch(location.href);
      const fresh = answer.ok && $('#cluster', new DOMParser().parseFromString(await answer.text(), 'text/html'));
      if (!fresh || fresh.innerHTML === place.innerHTML) return;
      const before = [...place.querySelectorAll('.scroll')].map(e => e.scrollLeft);
      place.innerHTML = fresh.innerHTML;
      place.querySelectorAll('.scroll').forEach((e, i) => { e.scrollLeft = before[i] || 0; });
    } catch { /* the next time */ }
  }, 5000);
}

document.addEventListener('DOMContentLoaded', () => {
  const run = $('#run');
  if (run) {
    const page = new RunPage(run);
    document.addEventListener('submit', event => {
      if (event.target.method !== 'post' || !event.target.action.includes('/runs/')) return;
      event.preventDefault();
      change(page, event.target, event.submitter);
    });
    document.addEventListener('click', event => { // a point of the front leads to its row, whose button it presses
      const link = event.target.closest('#front-section svg a');
      if (!link || document.body.classList.contains('reading')) return;
      const button = $(link.getAttribute('href') + ' button');
      if (button) { event.preventDefault(); button.click(); }
    });
  }
  const table = $('#runs-table');
  if (table) listPage(table);
  const cluster = $('#cluster');
  if (cluster) clusterPage(cluster);
});
