"""What a run's figures become in the tables, and that a figure which is no number never passes."""
import json
import os
import tempfile
import unittest
import unittest.mock

from referee import page, table


class Tables(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.run = self.folder.name

    def tearDown(self):
        self.folder.cleanup()

    def points(self, *lines, earlier=()):
        with open(self.run + "/points.tsv", "w") as f:
            for axis, value, verdict, share in lines:
                print("lib", "1", "k", "rmsnorm", "f32", axis, value, verdict, share, "1", "1", "rms of y", "why", sep="\t", file=f)
        return list(table.ranges(self.run, earlier))

    def row(self, **changed):
        said = dict(verdict="pass", reasons=[], xray=dict(form="rows", outputs=[dict(name="y", explained=1.0)], suspects=[], identified=True))
        r = dict(library="lib", version="1", kernel="k", op="rmsnorm", contract="f32", row="plain", said=said, worst=1.0, rms=0.5, share=0.4,
                 rule="rms of y", relative=0.01) | changed
        with open(self.run + "/rows.jsonl", "w") as f:
            print(json.dumps(r), file=f)
        return list(table.rows(self.run, None))

    def test_a_nan_does_not_hold(self):
        for share in ("nan", "", "inf", "1.5"):
            r, = self.points(("width", "1", "pass", "0.5"), ("width", "2", "pass", share))
            self.assertEqual(r["held"], "1", share)
            self.assertTrue(r["left"].startswith("2: "), share)

    def test_what_was_not_judged_is_counted_and_not_held(self):
        r, = self.points(("width", "1", "pass", "0.5"), ("width", "2", "late", ""), ("width", "3", "unjudged", ""))
        self.assertEqual((r["held"], r["judged"], r["unjudged"]), ("1", 1, 2))
        r, = self.points(("width", "2", "late", ""))
        self.assertEqual((r["held"], r["judged"], r["unjudged"]), ("", 0, 1))

    def test_an_undecided_call_does_not_hold(self):
        r, = self.points(("width", "1", "undecided", "0.5"))
        self.assertEqual((r["held"], r["judged"]), ("", 1))

    def test_a_later_run_is_believed_where_it_judged(self):
        of = lambda *lines: {n: str(x) for n, x in self.points(*lines)[0].items()}
        early = of(("width", "1", "fail", "3"), ("width", "2", "pass", "0.5"), ("width", "7", "late", ""))
        r, = self.points(("width", "1", "pass", "0.5"), earlier=[early])
        self.assertEqual((r["held"], r["left"], r["judged"]), ("1-2", "", 2))
        r, = self.points(("width", "1", "late", ""), earlier=[early])
        self.assertEqual((r["held"], r["left"], r["unjudged"]), ("2", "1: rms of y, 3 of its limit", 0))
        r, other = self.points(("size", "1", "pass", "0.5"), earlier=[early])
        self.assertEqual((other["axis"], other["held"], other["left"], other["unjudged"]), ("width", "2", "1: rms of y, 3 of its limit", 1))

    def test_another_contract_of_a_kernel_keeps_nothing(self):
        early = {n: str(x) for n, x in self.points(("width", "2", "pass", "0.5"))[0].items()} | dict(contract="bf16")
        r, = self.points(("width", "1", "pass", "0.5"), earlier=[early])
        self.assertEqual((r["held"], r["judged"], r["contract"]), ("1", 1, "f32"))

    def test_what_held_is_known_and_what_failed_is_asked_again(self):
        line = dict(library="lib", version="1", kernel="k", contract="f32", axis="width", held="1-2", left="3: rms of y, 3 of its limit", refused="4: no")
        rows = [dict(line, inputs="plain", verdict="pass"), dict(line, inputs="far", verdict="fail")]
        with unittest.mock.patch.object(table, "read", lambda name: rows if name == "rows" else [line]):
            self.assertEqual(table.known("lib", "1", "k", "f32"), {("row", "plain"), ("width", "1"), ("width", "2")})
            self.assertEqual(table.known("lib", "1", "k", "bf16"), set())

    def test_another_version_of_a_library_keeps_nothing(self):
        early = {n: str(x) for n, x in self.points(("width", "2", "pass", "0.5"))[0].items()} | dict(version="0")
        r, = self.points(("width", "1", "pass", "0.5"), earlier=[early])
        self.assertEqual((r["held"], r["judged"]), ("1", 1))

    def test_the_tables_are_read_back_as_they_were_written(self):
        for r in table.read("ranges"):
            points = list(table.points_of_line(r))
            self.assertEqual(table.numbers([p["value"] for p in points if p["verdict"] == "pass"]), r["held"])
            self.assertEqual(sum(p["verdict"] != "raised" for p in points), int(r["judged"]), r)

    def test_lengths_are_told_as_ranges(self):
        self.assertEqual(table.numbers(["10", "1", "2", "3", "12", "11", "1000"]), "1-3, 10-12, 1000")
        self.assertEqual(table.numbers(["-60", "-1e-06", "-0.5"]), "-1e-06, -0.5, -60")

    def test_a_pass_that_is_larger_than_the_output_is_unsettled(self):
        self.assertEqual(self.row()[0]["verdict"], "pass")
        for relative in (1.5, float("nan"), float("inf")):
            self.assertEqual(self.row(relative=relative)[0]["verdict"], "unsettled", relative)
        said = dict(verdict="fail", reasons=["worst"], xray=None)
        self.assertEqual(self.row(relative=5.0, said=said)[0]["verdict"], "fail")

    def test_a_row_is_of_the_run_that_judged_it(self):
        self.row()
        earlier = [dict(library="lib", kernel="k", inputs=inputs, op="rmsnorm", run="1", verdict="fail") for inputs in ("plain", "far")]
        found = {r["inputs"]: r for r in table.rows_of(self.run, None, earlier, "2")}
        self.assertEqual({n: (r["run"], r["verdict"]) for n, r in found.items()}, dict(plain=("2", "pass"), far=("1", "fail")))

    def test_a_row_of_a_run_that_nobody_describes_is_refused(self):
        known = table.read
        lost = lambda name: [r for r in known(name) if name != "runs" or r["run"] != "2"]
        with unittest.mock.patch.object(page, "read", lost), self.assertRaises(SystemExit):
            page.runs()

    def test_cells_hold_no_tab_and_no_colour(self):
        self.assertEqual(table.clean("\x1b[91ma\tb\n c\x1b[0m "), "a b c")

    def test_the_page_is_what_the_tables_say(self):
        page.main(True)

    def test_a_page_without_a_block_is_refused(self):
        with open(page.PAGE) as f:
            text = f.read()
        with self.assertRaises(SystemExit):
            page.fill(text.replace("<!-- referee: rows -->\n", ""))

    def test_a_page_with_another_figure_is_refused(self):
        with open(page.PAGE) as f:
            text = f.read()
        line = next(x for x in text.splitlines() if x.startswith("| fla-core"))
        self.assertNotEqual(page.fill(text.replace(line, line.replace("pass", "fail"), 1)), text.replace(line, line.replace("pass", "fail"), 1))

    def test_causes_are_of_somebody(self):
        for n in page.read("notes"):
            self.assertIn(n["whose"], ("kernel", "etalon", "float32"))
        for r in page.ranges().splitlines():
            self.assertNotIn("(unknown)", r, "a cause in notes.tsv, or 'unknown' said there")


if __name__ == "__main__":
    unittest.main()
