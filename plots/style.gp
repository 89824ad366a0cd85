# kind: png, svg or gif; picture: the file; wide, high: its size in pixels.
if (!exists("kind")) kind = "png"
if (kind eq "png") set terminal pngcairo size wide,high font "sans,12" noenhanced background rgb "white"
if (kind eq "svg") set terminal svg size wide,high font "sans,12" noenhanced background rgb "white"
if (kind eq "gif") set terminal gif animate delay 110 loop 0 size wide,high font "sans,11" noenhanced background "#ffffff"
set output picture
set datafile separator comma
set datafile missing "nan"
set grid lc rgb "#e0e0e0" lw 1
set border 3 lc rgb "#404040"
set tics nomirror
