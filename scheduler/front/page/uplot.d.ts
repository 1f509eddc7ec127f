/** The chart library, which the page loads before its modules. */
declare const uPlot: any;
